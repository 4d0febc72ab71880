"""Choose between few launches and separate launches for each layer, whichever the simulator predicts to be faster.

Launches that store every value in HBM and load it again are rarely faster. A lower bound on their time, computed from
the data that each of them must move and multiply, makes it unnecessary to plan them for most networks.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..kernels.tiling.packing import round_up
from ..models.layers import Combine, Conv2d, Dense
from ..models.network import Network
from ..simulator.machine.chip import PARTITIONS
from ..simulator.timing.constants import machine
from .backend import NETWORK_DTYPES, BackendInfo, KernelError
from .floor import empty_launch_ns, multiplying_ns

if TYPE_CHECKING:
    from .launches import LayerLaunches, NetworkLaunches

_LOG = logging.getLogger(__name__)

DENSE_LAUNCHES = 3  # transpose, matmul, and bias with activation
MOST_COMPARED = 16  # largest batch size for which both alternatives are timed


def quicker(
    network: Network,
    dtype: str,
    info: BackendInfo,
    batch: int,
    launches: NetworkLaunches,
    make_layers: Callable[[], LayerLaunches],
) -> NetworkLaunches | LayerLaunches:
    """Return `launches`, or launches of single layers if those are predicted to be faster.

    `batch` is the typical batch size. `launches` are returned if the backend is a chip, or if single layers do not fit
    or cannot be planned.
    """
    if info.name != "sim" or info.lnc > 1:
        return launches
    size = min(batch, MOST_COMPARED)
    together = launches.predicted_us(info.target, size)
    least = least_of_layers(network, dtype, size, info.target)
    if together <= sum(least.values()):
        return launches
    try:
        layers = make_layers()
        apart = layers.predicted_us(info.target, size, together, least)
    except KernelError:  # a single layer does not fit
        return launches
    except Exception:  # a bug in planning single layers must not stop the network
        _LOG.exception("%s: no plan layer by layer in %s", network.name, dtype)
        return launches
    if apart >= together:
        return launches
    layers.note = (
        f"layer by layer, which is faster than one launch: {apart:,.0f} us, not {together:,.0f}, predicted in batches "
        f"of {size}"
    )
    return layers


def least_of_layers(network: Network, dtype: str, batch: int, target: str) -> dict[str, float]:
    """Return, keyed by layer name, a lower bound in microseconds on the time that each layer takes for a batch if it is
    launched separately.

    The bound of a convolution considers that its output channels may not fill all partitions.
    """
    constants, shapes = machine(target), network.shapes()
    multiplying = multiplying_ns(network, dtype, batch, target)
    item_ns = batch * NETWORK_DTYPES[dtype].itemsize / constants.dma_sustained
    least: dict[str, float] = {}
    for layer in network.layers:
        is_sum = isinstance(layer, Combine) and layer.operation == "add"  # the sum may be fused into a convolution
        if layer.only_moves or is_sum:
            continue
        elements = sum(math.prod(shapes[name]) for name in (layer.name, *layer.inputs))
        launches = DENSE_LAUNCHES if isinstance(layer, Dense) else 1
        filled = layer.out_channels / round_up(layer.out_channels, PARTITIONS) if isinstance(layer, Conv2d) else 1.0
        least_ns = launches * empty_launch_ns(constants) + max(elements * item_ns, multiplying[layer.name] / filled)
        least[layer.name] = least_ns / 1000
    return least

"""Order of predicted times: a launch is no slower than its layers, and one picture no slower than several."""

from __future__ import annotations

import pytest
from random_networks import conv, model_of, of_kind, picture, residual
from trninfer.models.files import Model
from trninfer.models.layers import Affine, ChannelSlice, Combine, Concat, Dense, Flatten, Layer, Pool
from trninfer.models.network import Network
from trninfer.models.outputs import Output
from trninfer.runtime.launch_options import LaunchOptions, Per
from trninfer.runtime.session import Session
from trninfer.runtime.simulated import SimulatedBackend

pytestmark = pytest.mark.slow

DTYPE = "bfloat16"
BY_HAND = [pytest.param(dtype, marks=pytest.mark.by_hand) for dtype in ("float32", "float16")]


def _network(name: str, side: int, layers: list[Layer], channels: int, left: int) -> Model:
    """Return the layers, followed by an average over `left` rows and columns and a dense layer."""
    layers += [Pool("mean", "average", (left, left), (1, 1)), Flatten("flat"), Dense("dense", channels, 7)]
    return model_of(Network(name, picture(3, side, side), tuple(layers), (), Output("values")))


def keras() -> Model:
    """Return few channels, and a batch normalisation after each activation."""
    layers: list[Layer] = [conv("c0", 3, 8, 3), Affine("n0", (8,)), Pool("p0", "max", (2, 2), (2, 2))]
    layers += [conv("c1", 8, 8, 3), Affine("n1", (8,)), Pool("p1", "max", (2, 2), (2, 2))]
    return _network("keras", 32, layers, 8, 8)


def mixed() -> Model:
    """Return slices of an expansion, each with depthwise filters, and a residual sum."""
    layers: list[Layer] = [conv("stem", 3, 40, 3), conv("expand", 40, 160, 1)]
    for n in range(2):
        layers.append(ChannelSlice(f"slice{n}", 80 * n, 80 * n + 80, inputs=("expand",)))
        layers.append(conv(f"own{n}", 80, 80, 3, groups=80))
    layers += [Concat("all", inputs=("own0", "own1")), conv("project", 160, 40, 1)]
    layers.append(Combine("sum", "add", inputs=("project", "stem")))
    return _network("mixed", 12, layers, 40, 12)


NETWORKS = {
    "residual": residual,
    "keras": keras,
    "mixed": mixed,
    **{kind: lambda kind=kind: of_kind(kind) for kind in ("shuffle", "layer_norm", "group_norm")},
}


def _microseconds(model: Model, dtype: str, batch: int, launches: Per = "network") -> float:
    return Session(model, SimulatedBackend("trn2"), dtype, batch, LaunchOptions(launches)).time(batch).total_us


@pytest.mark.parametrize("dtype", [DTYPE, *BY_HAND])
@pytest.mark.parametrize("name", NETWORKS)
def test_no_network_is_slower_than_its_layers(name: str, dtype: str) -> None:
    model = NETWORKS[name]()
    for batch in (1, 16) if dtype == DTYPE else (1, 4, 16):
        assert _microseconds(model, dtype, batch) <= _microseconds(model, dtype, batch, "layer"), batch


@pytest.mark.parametrize("dtype", [DTYPE, *BY_HAND])
@pytest.mark.parametrize("name", NETWORKS)
def test_one_picture_takes_no_longer_than_two_or_four(name: str, dtype: str) -> None:
    model = NETWORKS[name]()
    one, *more = (_microseconds(model, dtype, batch) for batch in (1, 2, 4))
    assert one <= min(more)

"""NKI kernels, one file a family. What several share is in tiling/, the parts of conv2d.py in convolution/, those of
network.py in networks/.

The kernels are reachable by name (``from trninfer.kernels import matmul_tiled``) and loaded on first use. Which `nki`
they then get is settled by `use_nki`; where nobody called it, by its default. Three kernels share their names with
their modules: here the names mean the kernels, unless somebody has imported such a module by its full path before.
`kernel` gives the kernel in any case.
"""

import importlib
import sys
from typing import TYPE_CHECKING, Any

from .nki_source import choose_at_first_import, use_nki

if TYPE_CHECKING:
    from .argmax import argmax as argmax
    from .arrangement import channel_shuffle as channel_shuffle
    from .arrangement import channel_slice as channel_slice
    from .arrangement import concat as concat
    from .arrangement import pad as pad
    from .arrangement import permute as permute
    from .bias_activation import bias_activation as bias_activation
    from .conv2d import fused_conv2d_add_packed as fused_conv2d_add_packed
    from .conv2d import fused_conv2d_maxpool as fused_conv2d_maxpool
    from .conv2d import fused_conv2d_maxpool_packed as fused_conv2d_maxpool_packed
    from .depthwise import depthwise_conv2d as depthwise_conv2d
    from .elementwise import affine as affine
    from .elementwise import apply_activation as apply_activation
    from .elementwise import combine as combine
    from .elementwise import prelu as prelu
    from .ffnn import ffnn_forward as ffnn_forward
    from .ffnn import ffnn_predict as ffnn_predict
    from .group_normalization import group_norm as group_norm
    from .matmul import matmul_block_free_dimension as matmul_block_free_dimension
    from .matmul import matmul_fully_optimized as matmul_fully_optimized
    from .matmul import matmul_hoist_load as matmul_hoist_load
    from .matmul import matmul_tiled as matmul_tiled
    from .network import run_network as run_network
    from .normalization import layer_norm as layer_norm
    from .normalization import local_response_norm as local_response_norm
    from .normalization import log_softmax as log_softmax
    from .pooling import average_pool as average_pool
    from .pooling import max_pool as max_pool
    from .psum_sums import psum_side_by_side as psum_side_by_side
    from .psum_sums import psum_within as psum_within
    from .transpose import transpose as transpose
    from .vector_add import vector_add_direct_allocation as vector_add_direct_allocation
    from .vector_add import vector_add_naive as vector_add_naive
    from .vector_add import vector_add_stream as vector_add_stream
    from .vector_add import vector_add_tiled as vector_add_tiled

_MODULES = {
    "vector_add_naive": "vector_add",
    "vector_add_tiled": "vector_add",
    "vector_add_stream": "vector_add",
    "vector_add_direct_allocation": "vector_add",
    "transpose": "transpose",
    "matmul_tiled": "matmul",
    "matmul_hoist_load": "matmul",
    "matmul_block_free_dimension": "matmul",
    "matmul_fully_optimized": "matmul",
    "average_pool": "pooling",
    "max_pool": "pooling",
    "bias_activation": "bias_activation",
    "depthwise_conv2d": "depthwise",
    "channel_shuffle": "arrangement",
    "channel_slice": "arrangement",
    "concat": "arrangement",
    "pad": "arrangement",
    "permute": "arrangement",
    "group_norm": "group_normalization",
    "layer_norm": "normalization",
    "local_response_norm": "normalization",
    "log_softmax": "normalization",
    "affine": "elementwise",
    "apply_activation": "elementwise",
    "combine": "elementwise",
    "prelu": "elementwise",
    "argmax": "argmax",
    "psum_side_by_side": "psum_sums",
    "psum_within": "psum_sums",
    "fused_conv2d_add_packed": "conv2d",
    "fused_conv2d_maxpool": "conv2d",
    "fused_conv2d_maxpool_packed": "conv2d",
    "run_network": "network",
    "ffnn_forward": "ffnn",
    "ffnn_predict": "ffnn",
}

__all__ = [*_MODULES, "kernel", "use_nki"]


def kernel(name: str) -> Any:
    """The kernel of a name; AttributeError where there is none. Settles which `nki` kernels get, if nobody has."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no kernel {name!r}; there are {', '.join(_MODULES)}")
    use_nki()
    loaded = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    for shared in _SHARED:  # importing a module has bound its name to the module
        module = sys.modules.get(f"{__name__}.{shared}")
        if module is not None and hasattr(module, shared):
            globals()[shared] = getattr(module, shared)
    return loaded


def __getattr__(name: str) -> Any:
    return kernel(name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES])


_SHARED = tuple(name for name, module in _MODULES.items() if name == module)
choose_at_first_import()

"""NKI kernels, one file per kernel family.

`tiling/` contains code that several kernels share, `convolution/` contains the parts of conv2d.py, and `operations/`
implements the operations that network.py runs.

Kernels are attributes of this package (``from trninfer.kernels import matmul_tiled``) and are loaded on first use.
`use_nki` selects the `nki` package that they import; if it is not called, the default is selected. Three kernels have
the same names as their modules. As attributes of this package, these names refer to the kernels, unless the module was
imported earlier by its full path. `kernel` always returns the kernel.
"""

import importlib
import sys
from typing import TYPE_CHECKING, Any

from .nki_source import choose_at_first_import, use_nki

if TYPE_CHECKING:
    from .argmax import argmax as argmax
    from .bias_activation import bias_activation as bias_activation
    from .conv2d import fused_conv2d_add_packed as fused_conv2d_add_packed
    from .conv2d import fused_conv2d_maxpool as fused_conv2d_maxpool
    from .conv2d import fused_conv2d_maxpool_packed as fused_conv2d_maxpool_packed
    from .conv2d_float8 import fused_conv2d_float8 as fused_conv2d_float8
    from .ffnn import ffnn_forward as ffnn_forward
    from .ffnn import ffnn_predict as ffnn_predict
    from .matmul import matmul_block_free_dimension as matmul_block_free_dimension
    from .matmul import matmul_fully_optimized as matmul_fully_optimized
    from .matmul import matmul_hoist_load as matmul_hoist_load
    from .matmul import matmul_tiled as matmul_tiled
    from .network import run_network as run_network
    from .pooling import average_pool as average_pool
    from .psum_sums import psum_side_by_side as psum_side_by_side
    from .psum_sums import psum_within as psum_within
    from .rule_breakers import psum_half_word as psum_half_word
    from .rule_breakers import sbuf_without_fallback as sbuf_without_fallback
    from .rule_breakers import single_column as single_column
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
    "bias_activation": "bias_activation",
    "argmax": "argmax",
    "psum_side_by_side": "psum_sums",
    "psum_within": "psum_sums",
    "psum_half_word": "rule_breakers",
    "single_column": "rule_breakers",
    "sbuf_without_fallback": "rule_breakers",
    "fused_conv2d_add_packed": "conv2d",
    "fused_conv2d_maxpool": "conv2d",
    "fused_conv2d_maxpool_packed": "conv2d",
    "fused_conv2d_float8": "conv2d_float8",
    "run_network": "network",
    "ffnn_forward": "ffnn",
    "ffnn_predict": "ffnn",
}

__all__ = [*_MODULES, "kernel", "use_nki"]


def kernel(name: str) -> Any:
    """Return the kernel called `name`. Raise AttributeError if there is none. If no `nki` package has been selected
    yet, select the default one."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no kernel {name!r}; available: {', '.join(_MODULES)}")
    use_nki()
    loaded = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    for shared in _SHARED:  # the import has bound this name to the module
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

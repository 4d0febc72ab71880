"""Tolerances of answers against the golden model's: one table, by source of the error.

Stochastic rounding is none of them: it would double every rounding, and is off wherever this program runs the chip
unless the user turned it on (neuron/system.py; neuron-features/rounding-modes.rst).
"""

from __future__ import annotations

from typing import NamedTuple

DTYPES = ("float32", "float16", "bfloat16", "float8_e4m3")


class Source(NamedTuple):
    """An error that one kernel makes, as a share of its largest value, by the dtype of the operands."""

    what: str
    shares: tuple[float, float, float, float]  # of DTYPES
    chip_only: bool
    why: str


SOURCES = (
    Source(
        "rounding",
        (1e-5, 5e-3, 4e-2, 0.125),
        False,
        "operands are rounded to the dtype (half of 2^-23, 2^-10, 2^-7, 2^-3) and some thousands of products are "
        "summed in another order than the golden model's; in 8 bits, no product is off by more than two roundings",
    ),
    Source(
        "passes of a float32 matmul",
        (1e-5, 0.0, 0.0, 0.0),
        True,
        "the Tensor Engine makes float32 products of several passes; AWS gives no bound, its own test of nc_matmul in "
        "float32 accepts 1e-5 (nki/test/test_nki_isa_nc_matmul.py)",
    ),
    Source(
        "table functions",
        (1e-5, 1e-5, 1e-5, 1e-5),
        True,
        "exp, gelu, sigmoid and tanh are piecewise polynomials (nki.api.shared.rst, nki-act-func); AWS gives no bound, "
        "its own test of activation accepts 1e-5 (nki/test/test_nki_isa_activation.py)",
    ),
)
# A network's answer is off by several kernels' errors: ten in float32; in 16 bits, where roundings of many layers
# cancel, fewer. The networks of docs/networks.md stay within a fifth of the sums. In 8 bits errors of single products
# cancel already: of 126 random networks of up to six layers, those with the first and last in bfloat16 stayed within
# 0.15 of the largest number, and one with all layers in 8 bits was 0.26 off.
_NETWORK = {"float32": 10.0, "float16": 2.0, "bfloat16": 1.25, "float8_e4m3": 2.5}


def kernel_tolerance(dtype: str, measured: bool = False) -> float:
    """The share of its largest value by which one kernel's result may be off; `measured`: on the chip."""
    position = DTYPES.index(dtype)
    return sum(source.shares[position] for source in SOURCES if measured or not source.chip_only)


def network_tolerance(dtype: str, measured: bool = False) -> float:
    """By how much a network's probability may be off."""
    return _NETWORK[dtype] * kernel_tolerance(dtype, measured)


def rounding(dtype: str) -> float:
    """The largest share of a number by which it is off once it is rounded: half the distance to the next one."""
    return {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8, "float8_e4m3": 2.0**-4}[dtype]

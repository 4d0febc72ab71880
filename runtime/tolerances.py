"""Tolerances for the difference between results and the golden model, in one table with a row for each source of error.

The tolerances do not cover stochastic rounding, which would double every rounding error. trninfer disables it on the
chip unless the user has enabled it (neuron/system.py; neuron-features/rounding-modes.rst).
"""

from __future__ import annotations

from typing import NamedTuple

DTYPES = ("float32", "float16", "bfloat16", "float8_e4m3")


class Source(NamedTuple):
    """A source of error. For each dtype of the operands, its size is given relative to the largest value of a kernel's
    result."""

    what: str
    shares: tuple[float, float, float, float]  # in the order of DTYPES
    chip_only: bool
    why: str


SOURCES = (
    Source(
        "rounding",
        (1e-5, 5e-3, 4e-2, 0.125),
        False,
        "operands are rounded to the dtype (half of 2^-23, 2^-10, 2^-7, 2^-3) and thousands of products are summed in "
        "a different order than in the golden model; in 8 bits, no product is off by more than two roundings",
    ),
    Source(
        "passes of a float32 matmul",
        (1e-5, 0.0, 0.0, 0.0),
        True,
        "the Tensor Engine computes float32 products in several passes; AWS states no bound, but "
        "its own test of nc_matmul in "
        "float32 accepts 1e-5 (nki/test/test_nki_isa_nc_matmul.py)",
    ),
    Source(
        "table functions",
        (1e-5, 1e-5, 1e-5, 1e-5),
        True,
        "exp, gelu, sigmoid and tanh are piecewise polynomials (nki.api.shared.rst, nki-act-func); AWS states no "
        "bound, but its own test of activation accepts 1e-5 (nki/test/test_nki_isa_activation.py)",
    ),
)
# The output of a network accumulates the errors of several kernels. Errors of ten kernels are allowed in float32, and
# fewer in 16 bits, where the rounding errors of many layers cancel. The errors of the networks in docs/networks.md are
# at most a fifth of these sums. With 8-bit values, the errors of the individual products also cancel. Among 126 random
# networks of up to six layers, the networks with the first and last layer in bfloat16 had errors of at most 0.15
# relative to the largest output; one network with all layers in 8 bits had an error of 0.26.
_NETWORK = {"float32": 10.0, "float16": 2.0, "bfloat16": 1.25, "float8_e4m3": 2.5}


def kernel_tolerance(dtype: str, measured: bool = False) -> float:
    """Return the tolerance of one kernel's result relative to its largest value. `measured` is True for results of the
    chip."""
    position = DTYPES.index(dtype)
    return sum(source.shares[position] for source in SOURCES if measured or not source.chip_only)


def network_tolerance(dtype: str, measured: bool = False) -> float:
    """Return the tolerance of a network's probabilities."""
    return _NETWORK[dtype] * kernel_tolerance(dtype, measured)


def rounding(dtype: str) -> float:
    """Return the largest relative error of rounding to a dtype: half the distance between adjacent values."""
    return {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8, "float8_e4m3": 2.0**-4}[dtype]

"""The operators that instructions accept as `op`: ALU operators and activation functions.

In NKI, an operator is specified by the `nki.language` function itself (`op=nl.add`). This module defines the
computation of each operator, on values in the simulator's representation (float32, or integers for bit operators).
Source: the tables of nki/api/nki.api.shared.rst.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..machine.dtypes import Array
from ..machine.errors import NkiValidationError
from .core import active

F32 = np.float32


@dataclass(frozen=True)
class AluOperator:
    """An operator of the Vector, Scalar and GpSimd ALUs.

    Operators with `bits` process the bit patterns of integers; all others process float32. `reduction` is the NumPy
    reduction if the hardware supports one, and `generation` is the first NeuronCore version with the operator.
    """

    name: str
    compute: Callable[..., Array]
    unary: bool = False
    bits: bool = False
    reduction: Callable[..., Array] | None = None
    generation: int = 2


def _compare(function: Callable[..., Array]) -> Callable[..., Array]:
    def compare(a: Array, b: Array) -> Array:
        return function(a, b).astype(F32)

    return compare


def _by_magnitude(wins: Callable[..., Array]) -> Callable[..., Array]:
    """Return a function that selects the operand whose magnitude wins, with its sign, or the second operand if the
    magnitudes are equal (nl.abs_max)."""

    def choose(a: Array, b: Array) -> Array:
        return np.where(wins(np.abs(a), np.abs(b)), a, b)

    return choose


def _power(a: Array, b: Array) -> Array:
    if np.result_type(a, b).kind in "iu":  # NumPy does not support negative integer powers of integers
        return np.power(np.asarray(a, np.float64), b)
    return np.power(a, b)


def _logical(function: Callable[..., Array]) -> Callable[..., Array]:
    def logical(a: Array, b: Array) -> Array:
        return function(np.not_equal(a, 0), np.not_equal(b, 0)).astype(F32)

    return logical


def _logical_reduction(function: Callable[..., Array]) -> Callable[..., Array]:
    def reduce(values: Array, axis: tuple[int, ...]) -> Array:
        flat = np.not_equal(values, 0).reshape(*values.shape[: axis[0]], -1)
        return function(flat, axis=-1).astype(F32)

    return reduce


def _over_last(function: np.ufunc) -> Callable[..., Array]:
    """Return a function that reduces several trailing axes with a ufunc, in order."""

    def reduce(values: Array, axis: tuple[int, ...]) -> Array:
        result: Array = function.reduce(values.reshape(*values.shape[: axis[0]], -1), axis=-1)
        return result

    return reduce


ALU: dict[str, AluOperator] = {
    operator.name: operator
    for operator in (
        AluOperator("add", np.add, reduction=np.add.reduce),
        AluOperator("subtract", np.subtract, reduction=_over_last(np.subtract)),
        AluOperator("multiply", np.multiply, reduction=np.multiply.reduce),
        AluOperator("maximum", np.maximum, reduction=np.maximum.reduce),
        AluOperator("minimum", np.minimum, reduction=np.minimum.reduce),
        AluOperator("equal", _compare(np.equal)),
        AluOperator("not_equal", _compare(np.not_equal)),
        AluOperator("greater", _compare(np.greater)),
        AluOperator("greater_equal", _compare(np.greater_equal)),
        AluOperator("less", _compare(np.less)),
        AluOperator("less_equal", _compare(np.less_equal)),
        AluOperator("logical_and", _logical(np.logical_and), reduction=_logical_reduction(np.all)),
        AluOperator("logical_or", _logical(np.logical_or), reduction=_logical_reduction(np.any)),
        AluOperator("logical_xor", _logical(np.logical_xor), reduction=_logical_reduction(np.logical_xor.reduce)),
        AluOperator("power", _power),
        AluOperator("abs_max", _by_magnitude(np.greater), generation=4),
        AluOperator("abs_min", _by_magnitude(np.less), generation=4),
        AluOperator("abs", np.abs, unary=True),
        AluOperator("square", np.square, unary=True),
        AluOperator("relu", lambda a: np.maximum(a, F32(0)), unary=True),
        AluOperator("rsqrt", lambda a: F32(1) / np.sqrt(a), unary=True),
        AluOperator("reciprocal", lambda a: F32(1) / a, unary=True),
        AluOperator("invert", np.invert, unary=True, bits=True),
        AluOperator("bitwise_and", np.bitwise_and, bits=True, reduction=np.bitwise_and.reduce),
        AluOperator("bitwise_or", np.bitwise_or, bits=True, reduction=np.bitwise_or.reduce),
        AluOperator("bitwise_xor", np.bitwise_xor, bits=True, reduction=np.bitwise_xor.reduce),
        AluOperator("left_shift", lambda a, b: np.left_shift(a, np.asarray(b, a.dtype)), bits=True),
        AluOperator("right_shift", lambda a, b: _logical_shift_right(a, b), bits=True),
    )
}


def _logical_shift_right(a: Array, b: Array) -> Array:
    unsigned = np.dtype(a.dtype.str.replace("i", "u"))
    return np.right_shift(a.view(unsigned), np.asarray(b, unsigned)).view(a.dtype)


# Activation functions

# Coefficients (numerator, denominator) of W. J. Cody's rational approximations of the error function (1969), which are
# accurate to float64: erf for |x| <= 0.46875, and erfc up to 4, beyond which erf is 1 in float32.
_Coefficients = tuple[tuple[float, ...], tuple[float, ...]]
_ERF_SMALL: _Coefficients = (
    (
        3.16112374387056560e00,
        1.13864154151050156e02,
        3.77485237685302021e02,
        3.20937758913846947e03,
        1.85777706184603153e-1,
    ),
    (2.36012909523441209e01, 2.44024637934444173e02, 1.28261652607737228e03, 2.84423683343917062e03),
)
_ERFC_MIDDLE: _Coefficients = (
    (
        *(5.64188496988670089e-1, 8.88314979438837594e00, 6.61191906371416295e01, 2.98635138197400131e02),
        *(8.81952221241769090e02, 1.71204761263407058e03, 2.05107837782607147e03, 1.23033935479799725e03),
        2.15311535474403846e-8,
    ),
    (
        *(1.57449261107098347e01, 1.17693950891312499e02, 5.37181101862009858e02, 1.62138957456669019e03),
        *(3.29079923573345963e03, 4.36261909014324716e03, 3.43936767414372164e03, 1.23033935480374942e03),
    ),
)


def erf(x: Array) -> Array:
    """Return the error function of float32 values, with float32 accuracy."""
    wide = np.asarray(x, np.float64)
    magnitude = np.abs(wide)
    p, q = _ERF_SMALL
    z = np.minimum(magnitude, 0.46875) ** 2
    numerator, denominator = p[4] * z, z
    for i in range(3):
        numerator, denominator = (numerator + p[i]) * z, (denominator + q[i]) * z
    small = np.minimum(magnitude, 0.46875) * (numerator + p[3]) / (denominator + q[3])
    p, q = _ERFC_MIDDLE
    y = np.minimum(magnitude, 4.0)
    numerator, denominator = p[8] * y, y
    for i in range(7):
        numerator, denominator = (numerator + p[i]) * y, (denominator + q[i]) * y
    large = 1.0 - np.exp(-y * y) * (numerator + p[7]) / (denominator + q[7])
    return np.copysign(np.where(magnitude <= 0.46875, small, large), wide).astype(F32)


def sigmoid(x: Array) -> Array:
    half = F32(0.5)
    return half * np.tanh(half * x) + half


def gelu(x: Array) -> Array:
    return F32(0.5) * x * (F32(1) + erf(x * F32(1 / math.sqrt(2))))


def _gelu_dx(x: Array) -> Array:
    cdf = F32(0.5) * (F32(1) + erf(x * F32(1 / math.sqrt(2))))
    return cdf + x * np.exp(F32(-0.5) * x * x) * F32(1 / math.sqrt(2 * math.pi))


def _gelu_tanh(x: Array) -> Array:
    return F32(0.5) * x * (F32(1) + np.tanh(F32(math.sqrt(2 / math.pi)) * (x + F32(0.044715) * x * x * x)))


def _gelu_sigmoid(x: Array) -> Array:
    return x * sigmoid(F32(1.702) * x)


def _gelu_sigmoid_dx(x: Array) -> Array:
    s = sigmoid(F32(1.702) * x)
    return s + F32(1.702) * x * s * (F32(1) - s)


def _silu_dx(x: Array) -> Array:
    s = sigmoid(x)
    return s + x * s * (F32(1) - s)


def _softplus(x: Array) -> Array:
    return np.logaddexp(x, F32(0)).astype(F32)


def _sin(x: Array) -> Array:
    # Outside [-pi, pi], the Scalar Engine extrapolates a cubic polynomial, so that sin(9.0) is about 27.65
    # (nki.api.shared.rst, nki-act-func). The Taylor expansion around the end of the range reproduces this value.
    beyond = np.abs(x) - F32(math.pi)
    cubic = beyond * (beyond * beyond / F32(6) - F32(1))
    return np.where(beyond <= 0, np.sin(x), np.sign(x) * cubic)


@dataclass(frozen=True)
class Domain:
    """The range of inputs, `low` to `high`, for which a function of the Scalar Engine is valid (nki.api.shared.rst,
    tbl-act-func). If `signed`, the range applies to the magnitudes."""

    low: float
    high: float
    shown: str
    signed: bool = False

    def outside(self, values: Array) -> Array:
        """Return the values outside the domain, ignoring NaN."""
        magnitudes = np.abs(values) if self.signed else values
        outliers: Array = values[(magnitudes < F32(self.low)) | (magnitudes > F32(self.high))]
        return outliers


_DOMAINS = {
    "log": Domain(2.0**-64, 2.0**64, "2^-64 to 2^64"),
    "sin": Domain(-math.pi, math.pi, "-pi to pi"),
    "arctan": Domain(-math.pi / 2, math.pi / 2, "-pi/2 to pi/2"),
    "sqrt": Domain(2.0**-116, 2.0**118, "2^-116 to 2^118"),
    "rsqrt": Domain(2.0**-87, 2.0**97, "2^-87 to 2^97"),
    "reciprocal": Domain(2.0**-42, 2.0**42, "2^-42 to 2^42 of either sign", signed=True),
}


@dataclass(frozen=True)
class ActivationFunction:
    """A function of the Scalar Engine.

    Functions with the same `table` share a lookup table, which must be loaded before use.
    """

    name: str
    compute: Callable[[Array], Array]
    table: str
    domain: Domain | None = None  # None if the function is valid for all numbers

    def watched(self, warn: Callable[[str], None], instruction: str) -> ActivationFunction:
        """Return a copy of the function that warns about inputs for which the results of the engine are invalid."""
        domain, compute = self.domain, self.compute
        assert domain is not None

        def compute_checked(values: Array) -> Array:
            wrong = domain.outside(values)
            if wrong.size:
                warn(
                    f"{instruction}: op=nl.{self.name} is applied to {wrong.flat[0]:.6g}; results of the Scalar Engine "
                    f"are valid only for {domain.shown}"
                )
            return compute(values)

        return replace(self, compute=compute_checked)


_IN_EVERY_TABLE = ""  # copy-like functions work with any lookup table

ACTIVATIONS: dict[str, ActivationFunction] = {
    name: ActivationFunction(name, compute, table, _DOMAINS.get(name))
    for name, compute, table in (
        ("copy", lambda x: x, _IN_EVERY_TABLE),
        ("square", np.square, _IN_EVERY_TABLE),
        ("relu", lambda x: np.maximum(x, F32(0)), _IN_EVERY_TABLE),
        ("abs", np.abs, _IN_EVERY_TABLE),
        ("sign", np.sign, _IN_EVERY_TABLE),
        ("exp", np.exp, "exp"),
        ("sigmoid", sigmoid, "sigmoid"),
        ("tanh", np.tanh, "sigmoid"),
        ("gelu", gelu, "gelu"),
        ("gelu_dx", _gelu_dx, "gelu"),
        ("gelu_apprx_tanh", _gelu_tanh, "gelu"),
        ("gelu_apprx_sigmoid", _gelu_sigmoid, "gelu"),
        ("gelu_apprx_sigmoid_dx", _gelu_sigmoid_dx, "gelu"),
        ("silu", lambda x: x * sigmoid(x), "silu"),
        ("silu_dx", _silu_dx, "silu"),
        ("softplus", _softplus, "softplus"),
        ("mish", lambda x: x * np.tanh(_softplus(x)), "softplus"),
        ("erf", erf, "erf"),
        ("erf_dx", lambda x: F32(2 / math.sqrt(math.pi)) * np.exp(-x * x), "erf"),
        ("log", np.log, "log"),
        ("sin", _sin, "sin"),
        ("arctan", np.arctan, "arctan"),
        ("sqrt", np.sqrt, "sqrt"),
        ("rsqrt", lambda x: F32(1) / np.sqrt(x), "rsqrt"),
        ("reciprocal", lambda x: F32(1) / x, "reciprocal"),
    )
}


def alu_operator(op: object, instruction: str, operand: str = "op") -> AluOperator:
    """Return the ALU operator that a kernel passed as `op=nl.<name>`."""
    operator = ALU.get(getattr(op, "__name__", ""))
    if operator is None:
        raise NkiValidationError(
            f"{instruction}: {operand}={shown_operator(op)} is not an ALU operator; allowed: "
            f"{', '.join('nl.' + name for name in ALU)}"
        )
    if operator.generation > 2 and active(instruction).target.generation < operator.generation:
        raise NkiValidationError(
            f"{instruction}: {operand}=nl.{operator.name} requires NeuronCore-v{operator.generation} (trn3)"
        )
    return operator


def activation_function(op: object, instruction: str) -> ActivationFunction:
    """Return the activation function that a kernel passed as `op=nl.<name>`.

    The function warns about inputs outside its domain.
    """
    activation = ACTIVATIONS.get(getattr(op, "__name__", ""))
    if activation is None:
        raise NkiValidationError(
            f"{instruction}: op={shown_operator(op)} is not an activation function; allowed: "
            f"{', '.join('nl.' + name for name in ACTIVATIONS)}"
        )
    if activation.domain is not None:
        core = active(instruction)
        if core.functional:
            return activation.watched(core.warner(), instruction)
    return activation


def shown_operator(op: object) -> str:
    return f"nl.{op.__name__}" if hasattr(op, "__name__") else repr(op)

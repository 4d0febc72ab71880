"""Activation functions of a tile: one instruction if the Scalar Engine supports the function, otherwise a few
instructions on both engines.

The Vector Engine has no divide instruction, but bounds, slopes and steps are cheaper there than a table lookup on the
Scalar Engine. Therefore lookups run on the Scalar Engine, and comparisons and products on the Vector Engine.
"""

import math

import nki.isa as nisa
import nki.language as nl

from .operation_fields import BOUNDS

# Functions that the Scalar Engine does not provide. The last three run entirely on the Vector Engine.
IN_STEPS = (
    *(
        "clip",
        *BOUNDS,
        "leaky_relu",
        "hardsigmoid",
        "hardswish",
        "softsign",
        "elu",
        "selu",
        "step",
        "threshold",
        "sin",
        "cos",
    ),
    *("reciprocal", "power", "sigmoid_by_powers"),
)

FEW_ROOTS = 32  # up to this many elements per partition, powers are faster than the Scalar Engine's table

TURN, TURN_REST = 6.28125, 0.0019353071795864769  # 2 pi
QUARTER_TURN = 1.5707963267948966
E, LARGEST_EXPONENT = 2.718281828459045, 80.0  # e, and an exponent whose power does not overflow float32
LARGEST_ANGLE = 3.1415925  # the largest float32 below pi

# monotonically increasing functions
NEVER_DECREASE = ("identity", "relu", "sigmoid", "tanh", "softplus", "exp", "sqrt", "softsign", "clip", *BOUNDS)


def activate(dst, data, activation, parameters=(), bias=None, scale=None):
    """Compute dst = activation(data * scale + bias).

    Dimensions:
        P: partitions.
    Args:
        dst: a tile in SBUF, float32, bfloat16 or float16.
        data: a tile in SBUF or PSUM with the same shape as dst. Intermediate results are float32.
        activation: identity, relu, gelu (exact), gelu_tanh, sigmoid, tanh, silu, softplus, mish, exp, abs,
            sqrt, log, reciprocal, hardswish, softsign, erf, sign, sin, cos, sigmoid_by_powers (a
            sigmoid without a table), or one that requires `parameters`: clip (low,
            high), leaky_relu (alpha), hardsigmoid (alpha, beta), elu (alpha), selu (alpha, gamma), as ONNX defines
            them; power (exponent), for positive numbers only; step (limit), which is 1 above the limit and 0
            elsewhere; threshold (limit), which is x above the limit and 0 elsewhere; and at_least (low) and within
            (low, high), whose parameters are float32 columns [P, 1].
        bias: a column [P, 1], or None for no bias.
        scale: a float32 column [P, 1], or None for no scaling.
    """
    function = _function(activation)
    is_plain = bias is None or bias.dtype == nl.float32  # the Vector Engine reads columns only in float32
    if activation == "sqrt" and is_plain and _numbers(dst) <= FEW_ROOTS:
        _few_roots(dst, data, bias, scale)
    elif function is not None:
        _on_scalar_engine(dst, data, function, bias, scale)
    elif activation == "at_least" and scale is None:
        at_least(dst, data, parameters[0], bias)
    # Rounding preserves the order, so bounds may be applied after the cast if that is faster.
    elif activation in ("clip", *BOUNDS):
        x = data
        if bias is not None or scale is not None:
            # a separate tile, so that later writes to parts of dst do not wait for this one
            x = nl.ndarray(dst.shape, dtype=before_bounds(dst.dtype), buffer=nl.sbuf)
            _moved(x, data, bias, scale)
        apply_bounds(dst, x, parameters)
    else:
        x = data
        if bias is not None or scale is not None:
            x = _tile(dst)
            _moved(x, data, bias, scale)
        _in_steps(dst, x, activation, parameters)


def at_least(dst, data, low, bias):
    """Compute dst = max(data + bias, low)."""
    if bias is None:
        nisa.tensor_scalar(dst=dst, data=data, op0=nl.maximum, operand0=low)
    else:
        nisa.tensor_scalar(dst=dst, data=data, op0=nl.add, operand0=bias, op1=nl.maximum, operand1=low)


def apply_bounds(dst, data, bounds):
    """Compute dst = min(max(data, low), high); the upper bound may be missing or None."""
    low, high = (*bounds, None)[:2]
    second = {} if high is None else {"op1": nl.minimum, "operand1": high}
    nisa.tensor_scalar(dst=dst, data=data, op0=nl.maximum, operand0=low, **second)


def before_bounds(dtype):
    """Return the dtype in which numbers must be clipped before they are cast to `dtype`, so that large numbers do not
    overflow."""
    return nl.bfloat16 if dtype == nl.float8_e4m3 else dtype


def _function(activation):
    """Return the function of the Scalar Engine that computes an activation, or None."""
    if activation in IN_STEPS:
        return None
    functions = {
        "identity": nl.copy,
        "relu": nl.relu,
        "gelu": nl.gelu,
        "gelu_tanh": nl.gelu_apprx_tanh,
        "sigmoid": nl.sigmoid,
        "tanh": nl.tanh,
        "silu": nl.silu,
        "softplus": nl.softplus,
        "mish": nl.mish,
        "exp": nl.exp,
        "abs": nl.abs,
        "sqrt": nl.sqrt,
        "log": nl.log,
        "erf": nl.erf,
        "sign": nl.sign,
    }
    assert activation in functions, f"there is no activation {activation}"
    return functions[activation]


def _numbers(tile):
    """Return the number of elements per partition."""
    return math.prod(tile.shape[1:])


def _few_roots(dst, data, bias, scale):
    """Compute the square roots of a few numbers as powers, which avoids loading a table."""
    moved = data
    if bias is not None or scale is not None:
        moved = _tile(dst)
        nisa.tensor_scalar(
            dst=moved,
            data=data,
            op0=nl.multiply,
            operand0=1.0 if scale is None else scale,
            op1=nl.add,
            operand1=0.0 if bias is None else bias,
            engine=nisa.engine.vector,
        )
    nisa.tensor_scalar(dst=dst, data=moved, op0=nl.power, operand0=0.5, engine=nisa.engine.vector)


def _on_scalar_engine(dst, data, function, bias, scale):
    if scale is None:
        nisa.activation(dst=dst, op=function, data=data, bias=bias)
    else:
        nisa.activation(dst=dst, op=function, data=data, bias=bias, scale=scale)


def _moved(dst, data, bias, scale):
    """Write data * scale + bias to dst, or nothing if both scale and bias are None."""
    if bias is not None or scale is not None:
        _on_scalar_engine(dst, data, nl.copy, bias, scale)


def _tile(dst):
    return nl.ndarray(dst.shape, dtype=nl.float32, buffer=nl.sbuf)


def _in_steps(dst, x, activation, parameters):
    """Compute the activations that require several instructions; x is a tile in SBUF or PSUM."""
    if activation == "leaky_relu":
        slope = parameters[0]
        larger = nl.maximum if slope <= 1 else nl.minimum
        scaled = _tile(dst)
        nisa.activation(dst=scaled, op=nl.copy, data=x, scale=slope)
        nisa.tensor_tensor(dst=dst, data1=scaled, data2=x, op=larger)
    elif activation == "hardsigmoid":
        ramp = _ramp(x, parameters[0], parameters[1])
        nisa.tensor_scalar(dst=dst, data=ramp, op0=nl.minimum, operand0=1.0)
    elif activation == "hardswish":
        ramp = _ramp(x, 1.0 / 6.0, 0.5)
        nisa.scalar_tensor_tensor(dst=dst, data=ramp, op0=nl.minimum, operand0=1.0, op1=nl.multiply, operand1=x)
    elif activation == "softsign":
        magnitude = _tile(dst)
        nisa.activation(dst=magnitude, op=nl.abs, data=x)
        nisa.tensor_scalar(dst=magnitude, data=magnitude, op0=nl.add, operand0=1.0)
        nisa.reciprocal(dst=magnitude, data=magnitude)
        nisa.tensor_tensor(dst=dst, data1=magnitude, data2=x, op=nl.multiply)
    elif activation == "step":
        nisa.tensor_scalar(dst=dst, data=x, op0=nl.greater, operand0=parameters[0])
    elif activation == "threshold":
        nisa.scalar_tensor_tensor(dst=dst, data=x, op0=nl.greater, operand0=parameters[0], op1=nl.multiply, operand1=x)
    elif activation in ("sin", "cos"):
        _sine(dst, x, 0.0 if activation == "sin" else QUARTER_TURN)
    elif activation == "reciprocal":
        nisa.reciprocal(dst=dst, data=x)
    elif activation == "sigmoid_by_powers":
        _sigmoid_by_powers(dst, x)
    elif activation == "power":
        nisa.tensor_scalar(dst=dst, data=x, op0=nl.power, operand0=parameters[0])
    else:
        gamma = parameters[1] if activation == "selu" else 1.0
        _exponential_unit(dst, x, parameters[0] * gamma, gamma)


def _ramp(x, slope, offset):
    """Return max(x * slope + offset, 0) in float32."""
    ramp = _tile(x)
    shift = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)  # trn1 requires the bias to be a column
    nisa.memset(dst=shift, value=offset, engine=nisa.engine.gpsimd)
    nisa.activation(dst=ramp, op=nl.relu, data=x, scale=slope, bias=shift)
    return ramp


def _sigmoid_by_powers(dst, x):
    """Compute 1 / (1 + exp(-x)) without a table.

    Use it only for a few numbers, because powers are slower than a table that is already loaded.
    """
    decay = _tile(dst)
    nisa.tensor_scalar(
        dst=decay, data=x, op0=nl.maximum, operand0=-LARGEST_EXPONENT, op1=nl.power, operand1=1 / E, reverse1=True
    )
    nisa.tensor_scalar(dst=dst, data=decay, op0=nl.add, operand0=1.0, op1=nl.power, operand1=-1.0)


def exp_by_powers(dst, x):
    """Compute exp(x) for x <= 0 without a table, as a power of e."""
    nisa.tensor_scalar(dst=dst, data=x, op0=nl.power, operand0=E, reverse0=True, engine=nisa.engine.vector)


def _sine(dst, x, shift):
    """Compute sin(x + shift).

    Multiples of 2 pi are subtracted first, because the Scalar Engine's sine is valid from -pi to pi.

    2 pi is subtracted in two parts. The first part has few significant bits, so that its products with integers are
    exact.
    """
    angle = _tile(dst)
    nisa.tensor_scalar(dst=angle, data=x, op0=nl.add, operand0=shift)
    turns = _tile(dst)
    whole = nl.ndarray(dst.shape, dtype=nl.int32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=turns, data=angle, op0=nl.multiply, operand0=1.0 / (TURN + TURN_REST))
    nisa.tensor_copy(dst=whole, src=turns)  # rounds to the nearest integer
    nisa.tensor_copy(dst=turns, src=whole)
    for part in (TURN, TURN_REST):
        nisa.scalar_tensor_tensor(dst=angle, data=turns, op0=nl.multiply, operand0=-part, op1=nl.add, operand1=angle)
    nisa.tensor_scalar(
        dst=angle, data=angle, op0=nl.minimum, operand0=LARGEST_ANGLE, op1=nl.maximum, operand1=-LARGEST_ANGLE
    )
    nisa.activation(dst=dst, op=nl.sin, data=angle)


def _exponential_unit(dst, x, below, above):
    """Compute above * x for x >= 0, and below * (exp(x) - 1) for x < 0."""
    decay = _tile(dst)
    nisa.tensor_scalar(dst=decay, data=x, op0=nl.minimum, operand0=0.0)  # avoids overflow
    nisa.activation(dst=decay, op=nl.exp, data=decay)
    nisa.tensor_scalar(dst=decay, data=decay, op0=nl.multiply, operand0=below, op1=nl.subtract, operand1=below)
    positive = _tile(dst)
    nisa.tensor_scalar(dst=positive, data=x, op0=nl.maximum, operand0=0.0, op1=nl.multiply, operand1=above)
    nisa.tensor_tensor(dst=dst, data1=positive, data2=decay, op=nl.add)


def slope_below_zero(dst, x, slopes):
    """Compute PReLU: x, or x * slopes where x < 0. All three are tiles (or views) of one shape; x may be in PSUM."""
    below = _tile(dst)
    nisa.scalar_tensor_tensor(dst=below, data=x, op0=nl.minimum, operand0=0.0, op1=nl.multiply, operand1=slopes)
    nisa.scalar_tensor_tensor(dst=dst, data=x, op0=nl.maximum, operand0=0.0, op1=nl.add, operand1=below)

"""Elementwise arithmetic in SBUF, on two tiles or on a tile and one number per partition."""

import nki.isa as nisa
import nki.language as nl

from .activation_functions import activate

OPERATIONS = ("add", "subtract", "multiply", "divide", "maximum", "minimum")


def combine_tiles(dst, a, b, operation):
    """Compute dst = a operation b elementwise.

    Either a or b may be in PSUM. Axes of b with one element are broadcast. Quotients are computed as products with
    1 / b.
    """
    if operation == "divide":
        inverse = nl.ndarray(b.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.reciprocal(dst=inverse, data=b)
        b, operation = inverse, "multiply"
    for axis, (small, size) in enumerate(zip(b.shape, a.shape)):
        if small < size:
            b = b.broadcast(axis, size)
    nisa.tensor_tensor(dst=dst, data1=a, data2=b, op=_operator(operation))


def combine_column(dst, a, column, operation):
    """Compute dst = a operation column, with a float32 column [P, 1]."""
    if operation == "divide":
        inverse = nl.ndarray(column.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.reciprocal(dst=inverse, data=column)
        nisa.tensor_scalar(dst=dst, data=a, op0=nl.multiply, operand0=inverse)
    else:
        nisa.tensor_scalar(dst=dst, data=a, op0=_operator(operation), operand0=column)


def scale_and_shift_tiles(result, data, scale, shift, activation, parameters):
    """Compute activation(data * scale + shift) for tiles of equal shape."""
    total = nl.ndarray(data.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=total, data1=data, data2=scale, op=nl.multiply)
    nisa.tensor_tensor(dst=total, data1=total, data2=shift, op=nl.add)
    activate(result, total, activation, parameters)


def _operator(operation):
    if operation == "add":
        return nl.add
    if operation == "subtract":
        return nl.subtract
    if operation == "multiply":
        return nl.multiply
    if operation == "maximum":
        return nl.maximum
    assert operation == "minimum", f"operation must be one of {OPERATIONS}, got {operation}"
    return nl.minimum

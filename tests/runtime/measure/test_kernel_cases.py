"""Kernels at a given shape: valid and invalid descriptions."""

import pytest
from trninfer.runtime.measure.kernel_cases import ShapeError, kernel_case


def parse(text: str) -> dict[str, str]:
    return dict(part.split("=") for part in text.split(","))


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("convolution", "", "unknown kernel 'convolution'; available: conv2d, matmul"),
        ("matmul", "m=1,k=2", "n is missing; its shape is m, k, n"),
        ("matmul", "m=1,k=2,n=3,q=4", "unknown key 'q'"),
        ("matmul", "m=1,k=2,n=-3", "n is '-3'; expected an integer of at least 1"),
        ("matmul", "m=1,k=2,n=3.5", "n is '3.5'"),
        ("matmul", "m=1,k=2,n=0", "at least 1"),
        ("matmul", "m=1,k=2,n=" + "9" * 5000, "too large"),
        ("matmul", "m=1,k=2,n=3,variant=best", "allowed: fully_optimized, tiled"),
        ("conv2d", "cin=1,cout=1,h=2,w=9,k=3", "the image is too small"),
        ("argmax", "n=1000000,c=1000000", "too large"),
    ],
)
def test_shapes_that_are_refused(name: str, shape: str, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        kernel_case(name, parse(shape) if shape else {})


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("vector_add", "n=10000000,variant=naive"),
        ("vector_add", "n=1000000000,free=1"),
        ("matmul", "m=20000,k=20000,n=100000"),
        ("conv2d", "batch=32,cin=1024,cout=1024,h=200,w=200"),
    ],
)
def test_more_instructions_than_memory_takes_are_refused(name: str, shape: str) -> None:
    with pytest.raises(ShapeError, match="instructions; the limit is 1,048,576"):
        kernel_case(name, parse(shape))

"""Sums, products and powers of values and numbers, compared with ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx_chain import Chain, assert_imports, ends

WITH_NUMBERS = [(op, shape) for op in ("Add", "Sub", "Mul", "Div") for shape in ((), (5, 1, 1), (1, 5, 4, 3), (1, 3))]


@pytest.mark.parametrize(
    ("op", "shape"), [*WITH_NUMBERS, ("Max", ()), ("Min", ()), ("Max", (5, 1, 1)), ("Min", (4, 3)), ("Min", (5, 1, 3))]
)
def test_arithmetic_with_numbers(op: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    chain = Chain(5, 4, 3)
    numbers = chain.constant(np.random.default_rng(2).uniform(0.5, 2, shape))
    chain.add(op, numbers)
    if op in ("Add", "Sub", "Mul"):
        chain.add(op, chain.value, first=numbers)
    ends(chain, 60, tmp_path)


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Max", "Min"])
def test_arithmetic_of_two_values_in_different_layouts(op: str, tmp_path: Path) -> None:
    chain = Chain(3, 4, 4)
    chain.conv((3, 4), (1, 1))
    a = chain.value
    b = chain.add("Transpose", perm=[0, 2, 1, 3])
    chain.add(op, b, first=a)
    ends(chain, 64, tmp_path)


@pytest.mark.parametrize("exponent", [-1.0, 1.0, 2.0, 3.0, 4.0, 0.5, 1 / 3, -1.5])
def test_powers_and_reciprocals(exponent: float, tmp_path: Path) -> None:
    chain = Chain(3, 4, 4)
    chain.add("Abs")
    chain.add("Add", chain.constant(0.5))
    chain.add("Pow", chain.constant(exponent))
    ends(chain, 48, tmp_path)
    chain = Chain(6)
    chain.add("Abs")
    chain.add("Add", chain.constant(0.5))
    power = chain.value
    chain.add("Reciprocal")
    chain.add("Log")
    chain.add("Div", power, first=chain.constant(3.0))
    chain.gemm(6, 2)
    assert_imports(chain, tmp_path)


@pytest.mark.parametrize("count", [1, 3])
def test_the_mean_of_values(count: int, tmp_path: Path) -> None:
    chain = Chain(3, 4, 5)
    others = [chain.add("Mul", chain.weight(3, 1, 1), first="x") for _ in range(count)]
    chain.add("Mean", *others[1:], first=others[0])
    chain.add("Flatten")
    assert_imports(chain, tmp_path)

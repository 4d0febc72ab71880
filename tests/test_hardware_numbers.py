"""A single description of the chip: only `simulator/machine/chip.py` and `simulator/timing/` state its sizes and
rates."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from source_trees import tree_of
from trninfer.simulator.machine.chip import PARTITIONS, PSUM_BANK_BYTES, PSUM_BANK_FLOATS, PSUM_BANKS, TARGETS
from trninfer.simulator.timing.constants import TABLE

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("kernels", "lowering", "runtime", "simulator")
DESCRIBED = ("simulator/machine/chip.py", "simulator/timing/")

SIZES = {PARTITIONS, PSUM_BANK_FLOATS, PSUM_BANK_BYTES, PSUM_BANKS * PSUM_BANK_BYTES}
SIZES |= {size for chip in TARGETS.values() for size in (chip.sbuf_bytes, chip.usable_sbuf_bytes)}
SIZES |= {size * PARTITIONS for chip in TARGETS.values() for size in (chip.sbuf_bytes, chip.psum_bytes)}
CLOCKS = {ghz for chip in TARGETS.values() for ghz in (chip.tensor_ghz, chip.vector_ghz, chip.scalar_ghz)}
RATES = {constant.value for values in TABLE.values() for constant in values if constant.unit == "B/ns"}
NUMBERS: set[float] = {*SIZES, *CLOCKS, *(clock * 1e9 for clock in CLOCKS), *RATES}

# Numbers that happen to equal one of the chip's: (file, number), and their meaning.
OTHERS = {
    ("kernels/bias_activation.py", 2048): "elements of a chunk, chosen for the DMAs in flight",
    ("kernels/convolution/forms.py", 2048): "products of a partition that are made at a time",
    ("kernels/convolution/pairs.py", 512): "elements of a combination that are made at a time",
    ("kernels/convolution/plan.py", 16384): "bytes of a load, chosen for the DMA engines",
    ("kernels/group_normalization.py", 512): "pixels up to which sums of squares are as exact as 16-bit pixels",
    ("kernels/matmul.py", 16384): "columns from which warming up is worth its time",
    ("kernels/matmul_plan.py", 512): "columns of a tile, read on import, where the target is not known",
    ("lowering/emission/weight_loads.py", 16384): "bytes of a load, chosen for the DMA engines",
    ("kernels/operation_fields.py", 128): "columns of zeros, chosen for what waits behind them",
    ("kernels/operations/softmax.py", 512): "numbers of a partition up to which powers are quicker than a table",
    ("kernels/pooling.py", 2048): "elements of a band of rows, chosen for the Vector Engine",
    ("kernels/tiling/tiles.py", 2048): "bytes of HBM from which a descriptor is efficient",
    ("kernels/tiling/windows.py", 16384): "columns that a window may span",
    ("kernels/vector_add.py", 128): "the default of a parameter that users set",
    ("lowering/search/cost_model.py", 2048): "pixels from which a time is proportional to images",
    ("lowering/search/cost_model.py", 16384): "pixels of a band that are simulated",
    ("lowering/builder.py", 2048): "channels that are laid out anew; scores of a launch",
    ("kernels/filter_operations.py", 16384): "bytes for sums of minimal filtering",
    ("lowering/search/placement.py", 128): "bands that an image may be cut into",
    ("runtime/measure/kernel_cases.py", 16384): "elements of a chunk of argmax and pooling",
    ("runtime/neuron/processes.py", 1.2): "the factor by which a pause grows",
    ("lowering/passes/choose_forms.py", 1.2): "the speedup that justifies an elementwise form",
    ("simulator/profiles/ntff.py", 128): "bytes of the header of a file; the flag of a byte that another one follows",
    ("simulator/instructions/largest_eight.py", 16384): "the documented limit of the instruction",
}

_BINARY: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Mult: operator.mul,
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.LShift: lambda a, b: int(a) << int(b) if b < 64 else 0,
}


def value_of(node: ast.expr) -> float | None:
    """Return the value of an expression that contains only numbers, such as `24 * 1024 * 1024`, or None for other
    expressions."""
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) in (int, float) else None  # type: ignore[return-value]
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        left, right = value_of(node.left), value_of(node.right)
        return None if left is None or right is None else _BINARY[type(node.op)](left, right)
    return None


def numbers_in(tree: ast.AST) -> Iterator[tuple[int, float]]:
    """Return (line, number) of each numeric expression, for the whole expression only."""
    for child in ast.iter_child_nodes(tree):
        number = value_of(child) if isinstance(child, ast.expr) else None
        if number is None:
            yield from numbers_in(child)
        elif isinstance(child, ast.expr):
            yield child.lineno, number


@cache
def found() -> list[tuple[str, int, float]]:
    """Return (file, line, number) of each number of the chip outside of its description."""
    paths = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
    named = [(path, path.relative_to(ROOT).as_posix()) for path in paths]
    numbers = ((name, *each) for path, name in named for each in numbers_in(tree_of(path)))
    return [each for each in numbers if each[2] in NUMBERS and not each[0].startswith(DESCRIBED)]


def test_numbers_of_the_chip_are_in_its_description_alone() -> None:
    told = [f"{name}:{line}: {number:g}" for name, line, number in found() if (name, number) not in OTHERS]
    assert told == [], "read them from simulator/machine/chip.py, simulator/timing/ or nl.tile_size"


def test_exceptions_are_still_there() -> None:
    assert set(OTHERS) - {(name, number) for name, _, number in found()} == set()


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ("ROWS = 128", 128),
        ("x = min(y, 2 * 1024)", 2048),
        ("SBUF = 192 << 10", 192 << 10),
        ("SBUF = 24 * 1024 * 1024", 24 << 20),
        ("clock = work / 2.4e9", 2.4e9),
        ("def f(clock=2.8): pass", 2.8),
        ("rate = {'hbm': 368}", 368),
    ],
)
def test_a_restated_number_is_found(line: str, number: float) -> None:
    assert number in NUMBERS and [value for _, value in numbers_in(ast.parse(line))] == [number]

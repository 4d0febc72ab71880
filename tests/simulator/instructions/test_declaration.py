"""Declarations of instructions: every instruction declares every parameter, and calls that violate a declaration are
rejected."""

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from instruction_calls import CALLS, PAIRED
from nki_tensors import new, on
from trninfer.simulator import NkiValidationError
from trninfer.simulator.instructions.declaration import Declaration, Engine
from trninfer.simulator.instructions.operands import (
    Integer,
    Member,
    NamedFunction,
    Number,
    Operand,
    Operator,
    Scalar,
    Unchecked,
)
from trninfer.simulator.instructions.operators import ALU
from trninfer.simulator.instructions.register_moves import Register
from trninfer.simulator.instructions.tensor_operands import DmaTensor, OneElement, Tile, TileOrNumber
from trninfer.simulator.machine.chip import TARGETS
from trninfer.simulator.machine.dtypes import DTYPES
from trninfer.simulator.machine.instruction import DECLARATIONS, engine
from trninfer.simulator.machine.memory import PSUM
from trninfer.simulator.nki.api import table
from trninfer.simulator.tensors.tensor import NkiTensor
from trninfer.simulator.timing.costs import Costs

# functions that issue no instruction themselves
NO_INSTRUCTIONS = {"get_nc_version", "get_nc_sub_version", "register_alloc"}
ENTRIES = {f["name"]: f for f in table()["functions"] if f["module"] == "nki.isa" and f["kind"] == "function"}
TENSORS = (Tile, OneElement)
FIRST = {target.generation: target.name for target in TARGETS.values()}


def target_of(declaration: Declaration) -> str:
    """Return trn2 or, if it lacks an instruction, the first target that has it."""
    return FIRST[max(declaration.generation, 3)]


def test_every_instruction_is_declared():
    simulated = {name for name in ENTRIES if name in vars(nisa)}
    assert set(DECLARATIONS) == simulated - NO_INSTRUCTIONS
    assert set(CALLS) == set(DECLARATIONS)


@pytest.mark.parametrize("name", sorted(DECLARATIONS))
def test_a_declaration_has_the_parameters_of_the_api(name):
    declaration = DECLARATIONS[name]
    documented = [parameter["name"] for parameter in ENTRIES[name]["params"] if parameter["name"] != "name"]
    assert list(declaration.operands) == documented == [p for p in signature_of(name) if p != "name"]
    for operand, parameter in signature_of(name).items():
        if "NkiTensor" in str(parameter.annotation) and "Sequence" not in str(parameter.annotation):
            assert isinstance(declaration.operands[operand], TENSORS), operand
    if declaration.cost:
        assert callable(getattr(Costs, declaration.cost[0]))


def signature_of(name: str) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(DECLARATIONS[name].function).parameters)


@pytest.mark.parametrize("name", sorted(DECLARATIONS))
def test_a_declaration_names_its_own_operands(name):
    declaration = DECLARATIONS[name]
    named = [*declaration.together, declaration.flops[1] if declaration.flops[0] else ""]
    for operand in declaration.operands.values():
        named += [getattr(operand, field, "") for field in ("size_of", "partitions_of", "dtype_of", "of", "operator")]
        named += getattr(operand, "bits_of", ())
    assert {each for each in named if each} <= set(declaration.operands)


@pytest.mark.parametrize("name", sorted(set(CALLS) - set(PAIRED)))
def test_declared_operands_are_accepted(name):
    declaration = DECLARATIONS[name]
    with on(target_of(declaration)) as core:
        operands = CALLS[name]()
        before = len(core.program)
        getattr(nisa, name)(**operands)
        issued = core.program[before]
        assert issued.engine in declaration.engines
        if name != "activation_reduce":  # it is an activation
            assert issued.op == name


# Calls that violate a declaration


class Violation(NamedTuple):
    """An operand, a strategy for it on a NeuronCore, and the expected message."""

    operand: str
    drawn: Callable[[Any], Any]
    message: str


def shaped(tensor: NkiTensor, shape: Any = None, dtype: str | None = None, buffer: Any = None) -> NkiTensor:
    """Return a tensor like another one, except for the given properties."""
    return nl.ndarray(shape or tensor.shape, dtype or tensor.dtype, buffer or tensor.buffer)


def other_dtype(draw: Any, tensor: NkiTensor, allowed: Any) -> NkiTensor:
    names = [dtype for dtype in DTYPES if dtype not in allowed and dtype != "int64"]
    return shaped(tensor, dtype=draw(st.sampled_from(names)))


def of_tile(name: str, tile: Tile, given: NkiTensor) -> Iterator[Violation]:
    """Invalid values of a tile."""
    rows, columns = given.shape[0], given.free_size
    yield Violation(name, lambda draw: draw(st.sampled_from([np.ones((4, 4)), "x"])), f"{name} must be a")
    elsewhere = [region for region in (nl.sbuf, nl.psum, nl.shared_hbm) if region not in tile.buffers]
    if elsewhere:
        message = f"{name} .*(must be in|DMA cannot access PSUM)"
        yield Violation(name, lambda draw: shaped(given, buffer=draw(st.sampled_from(elsewhere))), message)
    if tile.dtypes:
        yield Violation(name, lambda draw: other_dtype(draw, given, tile.dtypes), f"{name} .* must be ")
    if tile.refused:
        yield Violation(
            name, lambda draw: shaped(given, dtype=draw(st.sampled_from(tile.refused))), f"{name} .* cannot be "
        )
    if tile.dtype_of and not tile.dtypes and not tile.refused:
        yield Violation(name, lambda draw: other_dtype(draw, given, [given.dtype]), "must have the dtype of")
    if tile.elements and tile.elements[1] < 20000:
        wrong = [n for n in (tile.elements[0] - 1, tile.elements[1] + 1) if n > 0]
        message = f"{name} .* must have .*element.* in a partition"
        yield Violation(name, lambda draw: shaped(given, (rows, draw(st.sampled_from(wrong)))), message)
    if tile.partitions > 1:
        uneven = st.sampled_from([n for n in range(1, 128) if n % tile.partitions])
        yield Violation(name, lambda draw: shaped(given, (draw(uneven), columns)), f"{name} .* must have a multiple of")
    if tile.dimensions:
        beyond = (rows, columns, *(1,) * (tile.dimensions - 1))
        yield Violation(name, lambda draw: shaped(given, beyond), f"{name} .* must have at most .* dimensions")
    if (tile.size_of or tile.partitions_of) and tile.partitions == 1:
        uneven = st.sampled_from([n for n in range(1, 129) if n != rows])
        message = "same number of partitions|must be equal|must be 1 partition"
        yield Violation(name, lambda draw: shaped(given, (draw(uneven), *given.shape[1:])), message)
    if tile.size_of and not tile.elements:
        wider = st.sampled_from([n for n in range(1, 201) if n != columns])
        yield Violation(name, lambda draw: shaped(given, (rows, draw(wider))), "same number of partitions")


def of_scalar(name: str, scalar: Scalar) -> Iterator[Violation]:
    """Invalid values of a number or a column."""
    yield Violation(name, lambda draw: draw(st.sampled_from(["1", [1.0], (2,)])), f"{name} must be a number or an NkiT")
    columns = st.integers(2, 8)
    yield Violation(name, lambda draw: new((16, draw(columns))), f"{name} .* one element for each of the 16 partitions")
    rows = st.sampled_from([n for n in range(1, 129) if n != 16])
    yield Violation(name, lambda draw: new((draw(rows), 1)), f"{name} .* one element for each of the 16 partitions")
    column = shaped(new((16, 1)))
    if scalar.dtypes:
        yield Violation(name, lambda draw: other_dtype(draw, column, scalar.dtypes), f"{name} .* must be ")
    if scalar.refused:
        yield Violation(
            name, lambda draw: shaped(column, dtype=draw(st.sampled_from(scalar.refused))), f"{name} .* cannot be "
        )


def of_operator(name: str, operator: Operator) -> Iterator[Violation]:
    """Operators that are not allowed."""
    wrong = [o.name for o in ALU.values() if o.generation == 2 and not _is_allowed(operator, o)]
    if wrong:
        yield Violation(name, lambda draw: getattr(nl, draw(st.sampled_from(wrong))), f"{name}(=nl.| must be nl.)")
    yield Violation(
        name, lambda draw: draw(st.sampled_from([nl.exp, nl.tanh, "add", 3])), f"{name}=.* is not an ALU operator"
    )


def _is_allowed(operator: Operator, found: Any) -> bool:
    misfit = (operator.binary and found.unary) or (operator.arithmetic and found.bits)
    return found.name in operator.allowed and not misfit


def of_engine(declaration: Declaration) -> Iterator[Violation]:
    generation = TARGETS[target_of(declaration)].generation
    allowed = [e for e in declaration.engines if declaration.engine_generations.get(e, 2) <= generation]
    wrong = [each for each in engine if each not in allowed and each is not engine.unknown]
    yield Violation("engine", lambda draw: draw(st.sampled_from(wrong)), "does not run on engine .*; allowed: ")


def violations(name: str, operands: dict[str, Any]) -> Iterator[Violation]:
    """All violations of an instruction's declaration by one operand."""
    declaration = DECLARATIONS[name]
    for operand, kind in declaration.operands.items():
        value = operands.get(operand)
        if isinstance(kind, TileOrNumber):
            yield Violation(operand, lambda draw: draw(st.sampled_from(["1", [1]])), "must be a number")
        elif isinstance(kind, Tile) and isinstance(value, NkiTensor):
            yield from of_tile(operand, kind, value)
        elif isinstance(kind, DmaTensor):  # a list of them
            yield Violation(
                operand,
                lambda draw, value=value: value * draw(st.sampled_from([0, 9])),
                "srcs must contain 1 to 16 tensors",
            )
            yield Violation(operand, lambda draw, value=value: [shaped(value[0], buffer=PSUM)], "cannot access PSUM")
        elif isinstance(kind, OneElement):
            yield Violation(operand, lambda draw: new((1, draw(st.integers(2, 9))), nl.int32), "must be one element of")
            wrong = [d for d in DTYPES if d not in kind.dtypes]
            yield Violation(
                operand, lambda draw, wrong=wrong: new((1, 1), draw(st.sampled_from(wrong))), "one element of"
            )
        elif isinstance(kind, Scalar):
            yield from of_scalar(operand, kind)
        elif isinstance(kind, Operator):
            yield from of_operator(operand, kind)
        elif isinstance(kind, NamedFunction):
            functions = [nl.add, nl.tanh, nl.subtract, nl.float32]
            wrong = [each for each in functions if getattr(each, "__name__", "") not in kind.allowed]
            yield Violation(operand, lambda draw, wrong=wrong: draw(st.sampled_from(wrong)), f"{operand}=.*; allowed: ")
        elif isinstance(kind, Member):
            members = [m for m in kind.kind if kind.allowed and m not in kind.allowed]
            yield Violation(
                operand, lambda draw, m=members: draw(st.sampled_from([*m, "no member"])), "must be one of nisa."
            )
        elif isinstance(kind, Integer):
            outside = st.sampled_from([kind.least - 1, kind.most + 1, 1.5, "1"])
            yield Violation(operand, lambda draw, outside=outside: draw(outside), f"{operand} must be an int")
        elif isinstance(kind, Number):
            yield Violation(
                operand, lambda draw: draw(st.sampled_from(["1", [1], None])), f"{operand} must be a number"
            )
        elif isinstance(kind, Engine):
            yield from of_engine(declaration)
        elif isinstance(kind, Register):
            yield Violation(
                operand, lambda draw: draw(st.sampled_from([3, None, "x"])), f"{operand} must be a register"
            )
        else:
            assert type(kind) in (Operand, Unchecked), f"{operand}: a kind of operand that this test does not know"


@pytest.mark.parametrize("name", sorted(DECLARATIONS))
def test_undeclared_operands_are_refused(name):
    declaration = DECLARATIONS[name]

    @settings(max_examples=40, deadline=None, derandomize=True)
    @given(st.data())
    def refuse(data):
        with on(target_of(declaration), functional=False):
            operands = CALLS[name]()
            violation = data.draw(st.sampled_from([*violations(name, operands)]), label="violation")
            operands[violation.operand] = violation.drawn(data.draw)
            with pytest.raises(NkiValidationError, match=f"^{name}: (?s:.*)({violation.message})"):
                getattr(nisa, name)(**operands)

    refuse()


@pytest.mark.parametrize("name", sorted(n for n, d in DECLARATIONS.items() if d.generation > 2))
def test_an_instruction_is_refused_on_earlier_generations(name):
    with on(FIRST[DECLARATIONS[name].generation - 1], functional=False):
        message = re.escape(f"{name}: requires NeuronCore-v{DECLARATIONS[name].generation}")
        with pytest.raises(NkiValidationError, match=message):
            getattr(nisa, name)(**CALLS[name]())


# Calls


def test_arguments_that_do_not_fit_are_reported_as_python_reports_them(core):
    dst, src = new((4, 8)), new((4, 16))
    for call, message in (
        (lambda: nisa.max8(dst), r"max8\(\) missing 1 required positional argument: 'src'"),
        (lambda: nisa.max8(dst, src, data=src), r"max8\(\) got an unexpected keyword argument 'data'"),
        (lambda: nisa.max8(dst, src, dst=dst), r"max8\(\) got multiple values for argument 'dst'"),
        (lambda: nisa.max8(dst, src, None, 1), r"max8\(\) takes from 2 to 3 positional arguments but 4 were given"),
    ):
        with pytest.raises(TypeError, match=message):
            call()


def test_a_named_instruction_keeps_its_name(core):
    assert nisa.max8(new((4, 8)), src=new((4, 16)), name="largest").name == "largest"
    assert nisa.max8(src=new((4, 16)), dst=new((4, 8))).name is None


def test_an_instruction_that_keeps_some_of_dst_reads_it(core):
    dst = new((16, 5), nl.int32)
    issued = nisa.nonzero_with_count(dst, new((16, 4)))
    assert [access.allocation for access in issued.reads].count(dst.access.allocation) == 1


def test_checks_precede_the_first_instruction(core):
    before = len(core.program)
    with pytest.raises(NkiValidationError):
        nisa.max8(new((4, 7)), new((4, 16)))
    assert len(core.program) == before

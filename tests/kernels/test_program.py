"""Programs are plain data."""

import dataclasses
import inspect
import pickle
import subprocess
import sys

import pytest
from lowered import decide, decided
from random_networks import residual
from trninfer.kernels import program
from trninfer.kernels.network import BODIES
from trninfer.kernels.program import Convolution, DenseHead, Operation, OutputOrder, Program, Stage

OPERATIONS = [
    kind
    for _, kind in inspect.getmembers(program, inspect.isclass)
    if issubclass(kind, Operation) and kind is not Operation
]


def test_the_images_of_a_phase_are_neighbours_in_the_input() -> None:
    """8 images of the input form 4 phases of the 2 images in the output."""
    operation = Convolution(name="a", channels=48, rows=1, columns=1, packed=2)
    assert operation.output_order(8) == OutputOrder(4, 1, 2, 48)
    assert dataclasses.replace(operation, rows_at_once=4).output_order(2) == OutputOrder(1, 4, 2, 48)
    scores = DenseHead(name="a", channels=10, rows=1, columns=1)
    assert scores.output_order(8) == OutputOrder(1, 1, 8, 10)


def test_a_program_numbers_its_operations_through_all_stages() -> None:
    operations = [Convolution(name=name, channels=4, rows=1, columns=1) for name in "abc"]
    whole = Program((Stage(tuple(operations[:2]), 4), Stage(tuple(operations[2:]), 1)), 1, 4)
    assert whole.operations == tuple(operations)
    assert operations[0].shape == (4, 1, 1) and whole.layers == ("a", "b", "c")


@pytest.mark.parametrize("kind", OPERATIONS, ids=lambda kind: kind.__name__)
def test_an_operation_is_frozen_hashable_data(kind: type[Operation]) -> None:
    """It accepts only keyword arguments, and has no mutable default that two operations could share."""
    assert dataclasses.is_dataclass(kind) and kind.__doc__
    parameters = inspect.signature(kind).parameters.values()
    assert all(parameter.kind is inspect.Parameter.KEYWORD_ONLY for parameter in parameters)
    for field in dataclasses.fields(kind):
        assert field.default is dataclasses.MISSING or isinstance(hash(field.default), int), field.name
    assert kind.__dataclass_params__.frozen and kind.__hash__ is not None


@pytest.mark.parametrize("kind", list(BODIES), ids=lambda kind: kind.__name__)
def test_an_operation_answers_what_lowering_asks(kind: type[Operation]) -> None:
    """Each operation answers itself or through the base class of a few; there is no general default."""
    own = [each for each in kind.__mro__ if each is not Operation and issubclass(each, Operation)]
    for question in ("cuts_channels", "packing", "cuts_rows"):
        assert any(question in vars(each) for each in own), f"{kind.__name__} does not answer {question!r}"
    assert not hasattr(Operation, "cuts_channels")  # no default hides a missing answer


def test_equal_programs_are_one_key() -> None:
    """As an argument of a jitted kernel, a program is compiled once for each value, in this process and in others."""
    one, other = (decided(residual(), decide(packed=2), 3).program for _ in range(2))
    assert one == other and hash(one) == hash(other) and one is not other
    assert pickle.loads(pickle.dumps(one)) == one
    assert one != decided(residual(), decide(packed=2), 4).program
    assert {one: 1}[other] == 1


def test_programs_are_made_before_a_backend_is_chosen() -> None:
    code = "import sys, trninfer.kernels.program; print([name for name in sys.modules if name.split('.')[0] == 'nki'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_only_convolutions_and_pools_of_packed_rows_make_copies() -> None:
    makers = {kind.__name__ for kind in OPERATIONS if kind.copies_made is not Operation.copies_made}
    assert makers == {"Convolution", "RowFoldPool"}

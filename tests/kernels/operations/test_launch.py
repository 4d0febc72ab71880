"""A program during execution: its images, values and constants, and what it keeps from one pass to the next."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from lowered import decide, decided, tensor_spec
from nki_tensors import counted, in_hbm, on, tile
from random_arrays import normal
from random_networks import conv, ending_in_dense, model_of
from single_operations import load_of
from trninfer import kernels, simulator
from trninfer.kernels.operation_fields import with_fields
from trninfer.kernels.operations.launch import Launch, make_diagonals
from trninfer.kernels.operations.load import load_plain
from trninfer.kernels.program import Buffer, Load, Program
from trninfer.runtime.layer_launches import specs_of

F32 = np.float32
MODEL = model_of(ending_in_dense((3, 12, 12), [conv("a", 3, 16, 3), conv("b", 16, 16, 3)]))


def with_resident_weights(program: Program) -> Program:
    """Return the program with all weights in SBUF during all passes."""
    operations = [
        operation
        if operation.filtered is None
        else with_fields(operation.filtered, weights=replace(operation.filtered.weights, are_resident=True))
        for operation in program.operations
    ]
    (stage,) = program.stages
    return replace(program, stages=(replace(stage, operations=tuple(operations)),))


def bytes_loaded(pictures: int, resident_weights: bool = False) -> int:
    """Return the bytes that a launch with one picture per pass loads."""
    plan = decided(MODEL, decide(), pictures, at_once=1)
    program = with_resident_weights(plan.program) if resident_weights else plan.program
    specs = {name: tensor_spec(spec) for name, spec in specs_of(plan, np.dtype(np.float32)).items()}
    run = simulator.run(kernels.kernel("run_network"), **specs, functional=False, program=program)
    return sum(each.dma.bytes for each in run.program if each.dma is not None and each.dma.load)


@pytest.mark.parametrize("pictures", [1, 2, 5])
def test_weights_that_stay_are_loaded_once(pictures: int) -> None:
    once, twice = (bytes_loaded(count) for count in (1, 2))
    each = twice - once  # each further pass loads its picture and all weights
    kept = [bytes_loaded(count, resident_weights=True) for count in (pictures, pictures + 1)]
    image = kept[1] - kept[0]
    assert 0 < image < each / 4
    assert kept[0] == once + (pictures - 1) * image


def launched(program: Program, shape: tuple[int, ...], constants: Any = None) -> Launch:
    """Return a launch on images with consecutive numbers."""
    numbers = np.zeros((128, 1)) if constants is None else constants
    return Launch((in_hbm(counted(*shape)),), (in_hbm(np.zeros(1)), None), in_hbm(numbers), program)


def test_pictures_that_are_no_images_are_refused() -> None:
    with on("trn2"), pytest.raises(AssertionError) as error:
        launched(Program((), 2, 3), (3, 4, 5, 5))
    assert "3 pictures, 2 of them packed, are 4 images for each of 1 cores, got 3" in str(error.value)


def test_a_launch_may_leave_images_unread() -> None:
    """Five pictures, packed in twos, are three images; the array has four."""
    with on("trn2"):
        launch = launched(Program((), 2, 5), (8, 3, 2, 2))
        assert launch.images == 3
        launch.begin_pass(1, 3, 0)
        (value,) = launch.operands(load_of(np.zeros((8, 3, 2, 2)), packed=2))
        assert (value.images, value.pictures, launch.pictures()) == (2, 3, 3)
        np.testing.assert_array_equal(value.hbm.values, counted(8, 3, 2, 2)[2:6].reshape(2, 6, 2, 2))


def test_operands_join_parts_of_some_rows() -> None:
    with on("trn2"):
        launch = launched(Program((), 1, 2), (2, 3, 6, 2))
        launch.begin_pass(0, 2, 0)
        load = load_of(np.zeros((2, 3, 6, 2)))
        launch.keep(0, load_plain(launch, 0, load, launch.operands(load)))
        read = Load(
            name="r", channels=6, rows=2, columns=2, sources=((0, 0), (0,)), windows=(((1, 3), (4, 6)), (None,))
        )
        both, whole = launch.operands(read)
        x = counted(2, 3, 6, 2).swapaxes(0, 1)
        assert (both.channels, both.rows, whole.rows) == (6, 2, 6)
        for t, rows in enumerate((x[:, :, 1:3], x[:, :, 4:6])):
            np.testing.assert_array_equal(both.inside(t).values, rows)


def test_constants_are_loaded_once_when_they_are_first_read() -> None:
    constants = normal((128, 5), F32)
    with on("trn2") as core:
        launch = launched(Program((), 1, 1), (1, 1, 1, 1), constants)
        assert launch.is_starting and not core.program
        np.testing.assert_array_equal(launch.constants(7, 1, 3).values, constants[:7, 1:4])
        np.testing.assert_array_equal(launch.constants(128, 4).values, constants[:, 4:])
        assert not launch.is_starting and len(core.program) == 1


def test_a_room_of_the_whole_batch_outlives_its_pass() -> None:
    buffer = Buffer(name="r", channels=3, rows=2, columns=2, heights=(3,), whole_batch=True)
    with on("trn2"):
        # pictures are packed in twos in the input, but not in the buffer
        launch = launched(Program((), 2, 4), (4, 3, 2, 2))
        for number in range(2):
            launch.begin_pass(number, number + 1, number)
            part = launch.open_buffer(0, buffer)
            assert (part.images, part.pictures) == (2, 2)
            part.tiles[0].write(np.full((3, 2, 2, 2), number, F32))
        launch.begin_pass(0, 2, 0)
        whole = launch.open_buffer(0, buffer).tiles[0].values
        np.testing.assert_array_equal(whole[0, :, 0, 0], [0, 0, 1, 1])
        own = launch.open_buffer(1, replace(buffer, whole_batch=False))
        assert own.images == 4 and own.tiles[0].values is not whole


def test_names_of_tensors_are_their_own() -> None:
    """Timelines use them to identify the layer and the pass."""
    with on("trn2"):
        launch = launched(Program((), 1, 2), (2, 1, 1, 1))
        launch.begin_pass(1, 2, 1)
        operation = load_of(np.zeros((2, 1, 1, 1)))
        launch.begin_operation(7)
        names = [launch.label(operation) for _ in range(2)]
        assert len(set(names)) == 2
        assert [(name.operation, name.pass_number) for name in names] == [(7, 1)] * 2


def test_diagonals_of_numbers() -> None:
    numbers = normal((100, 9, 1), F32)
    expected = numbers * np.eye(100)[:, None]
    with on("trn2"):
        for turn in range(2):
            made = make_diagonals(tile(numbers), tile(np.eye(128, dtype=F32)), turn)
            np.testing.assert_array_equal(made.values, expected)

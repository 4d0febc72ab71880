"""Assignment to slices, as written by PyTorch's exporter, compared with ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx_chain import Chain, checked
from trninfer.models.errors import ModelError
from trninfer.models.importing import Imported, import_network


def region(*spans: tuple[int, int]) -> np.ndarray:
    """Return the indices of a region, [..., axes]."""
    return np.stack(np.meshgrid(*(np.arange(*span) for span in spans), indexing="ij"), axis=-1)


def assigned(folder: Path, op: str, indices: np.ndarray, updates: tuple[int, ...] | np.ndarray, **more) -> Imported:
    """Return a graph that assigns data of shape `updates`, or constants, to a table [1, 4, 6]."""
    chain = Chain(4, 6)
    if isinstance(updates, tuple):
        size = int(np.prod(updates))
        chain.add("Flatten")
        chain.gemm(24, size)
        values = chain.add("Reshape", chain.constant(list(updates)))
    else:
        values = chain.constant(updates)
    chain.add("Relu", first="x")
    chain.add(op, chain.constant(indices), values, **more)
    chain.add("Sigmoid")
    model = chain.model()
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
    return checked(model, folder)


@pytest.mark.parametrize(
    "spans",
    [
        [(0, 1), (0, 4), (0, 2)],  # x[..., :2] = y
        [(0, 1), (0, 4), (3, 6)],
        [(0, 1), (0, 4), (2, 4)],
        [(0, 1), (1, 3)],  # x[:, 1:3] = y
        [(0, 1), (0, 4), (0, 6)],
    ],
)
def test_a_slice_is_assigned(spans: list, tmp_path: Path) -> None:
    indices = region(*spans)
    shape = (*indices.shape[:-1], *(4, 6)[len(spans) - 1 :])
    assigned(tmp_path, "ScatterND", indices, shape)
    numbers = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    assigned(tmp_path, "ScatterND", indices - np.array([0, 4, 6])[: len(spans)], numbers)


def test_all_inputs_of_an_open_batch_are_assigned(tmp_path: Path) -> None:
    """PyTorch's newer exporter writes x[:, 1:3] = y as an assignment to channels, followed by one to the whole
    batch."""
    chain = Chain(4, 5, 6)
    changed = chain.add("Sigmoid")
    count = chain.add("Gather", chain.constant(0), first=chain.add("Shape", first="x"), axis=0)
    entries = chain.add("Range", count, chain.constant(1), first=chain.constant(0))
    places = chain.add("Unsqueeze", chain.constant([-1]), first=entries)
    chain.add("ScatterND", places, changed, first="x")
    chain.add("Flatten")
    chain.gemm(120, 3)
    checked(chain.model(), tmp_path)


@pytest.mark.parametrize(("first", "step"), [(0, 2), (1, 2), (2, 3)])
def test_every_second_or_third_entry_is_assigned(first: int, step: int, tmp_path: Path) -> None:
    """As YOLO's keypoints are decoded: y[:, 1::3] = ..."""
    grid = np.stack(np.meshgrid([0], np.arange(4), np.arange(first, 6, step), indexing="ij"), axis=-1)
    assigned(tmp_path, "ScatterND", grid, grid.shape[:-1])
    entries = np.broadcast_to(np.arange(first, 6, step), (1, 4, 6 // step))
    assigned(tmp_path, "ScatterElements", entries, np.ones(entries.shape, np.float32), axis=2)


@pytest.mark.parametrize("op", ["ScatterND", "ScatterElements"])
def test_assignment_to_the_first_of_any_number_of_inputs_is_refused(op: str, tmp_path: Path) -> None:
    chain = Chain(4, 5)
    indices = np.array([[[0, 0], [0, 1]]]) if op == "ScatterND" else np.broadcast_to([1, 2], (1, 4, 2))
    updates = np.ones((1, 2, 5) if op == "ScatterND" else (1, 4, 2), np.float32)
    chain.add(op, chain.constant(indices), chain.constant(updates), **({} if op == "ScatterND" else {"axis": 2}))
    with pytest.raises(ModelError, match="assigns to the first input of a batch, whose size is not fixed"):
        import_network(chain.save(tmp_path))


@pytest.mark.parametrize(("axis", "entries"), [(2, [1, 2]), (-2, [3]), (1, [-4, -3])])
def test_entries_of_an_axis_are_assigned(axis: int, entries: list[int], tmp_path: Path) -> None:
    shape = [1, 4, 6]
    shape[axis] = len(entries)
    where = [1, 1, 1]
    where[axis] = len(entries)
    indices = np.broadcast_to(np.array(entries).reshape(where), shape)
    assigned(tmp_path, "ScatterElements", indices, tuple(shape), axis=axis)


@pytest.mark.parametrize(
    ("op", "indices", "shape", "more", "reason"),
    [
        ("ScatterND", np.array([[0, 0], [0, 3]]), (2, 6), {}, "elements that are not a slice of one axis"),
        ("ScatterND", np.array([[0, 1], [0, 0]]), (2, 6), {}, "elements that are not a slice of one axis"),
        ("ScatterND", region((0, 1), (0, 2), (0, 2)), (1, 2, 2), {}, "elements that are not a slice of one axis"),
        ("ScatterND", region((0, 1), (0, 2)), (1, 2, 6), {"reduction": "add"}, "its reduction is not supported"),
        ("ScatterElements", np.zeros((1, 2, 1), int), (1, 2, 1), {"axis": 2}, "elements that are not a slice"),
    ],
)
def test_other_assignments_are_refused(op, indices, shape, more, reason: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=reason):
        assigned(tmp_path, op, indices, shape, **more)

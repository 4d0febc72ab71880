"""Reshapes, transposes, slices and repeated entries, compared with ONNX Runtime."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from import_steps import importer_of, numbers, value_of
from onnx import TensorProto, helper
from onnx_chain import Chain, assert_imports, checked, ends, kinds
from trninfer.models import Conv2d
from trninfer.models.errors import ModelError
from trninfer.models.importing import ImportOptions, import_network
from trninfer.models.importing.onnx_file import Node
from trninfer.models.importing.operators.rearranging import OPERATORS
from trninfer.models.layers import ChannelShuffle, ChannelSlice, Concat


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("shape", [(2, 3, 7), (2, 21), (6, 7), (3, 14)])
def test_axes_that_share_no_factors(shape: tuple[int, ...], turned: bool, tmp_path: Path) -> None:
    chain = Chain(7, 2, 3)
    if turned:
        chain.add("Transpose", perm=[0, 3, 1, 2])
    chain.add("Reshape", chain.constant([-1, *shape]))
    chain.add("MatMul", chain.weight(shape[-1], 2))
    ends(chain, 42 // shape[-1] * 2, tmp_path)


def test_channels_are_shuffled_split_and_put_together(tmp_path: Path) -> None:
    chain = Chain(8, 5, 5)
    chain.conv((8, 8), (1, 1))
    chain.add("Reshape", chain.constant([-1, 2, 4, 5, 5]))
    chain.add("Transpose", perm=[0, 2, 1, 3, 4])
    x = chain.add("Reshape", chain.constant([-1, 8, 5, 5]))
    first = chain.add("Split", first=x, outputs=2, axis=1, num_outputs=2)
    second = f"{first}'"
    chain.add("Slice", *(chain.constant([n]) for n in (2, 4, 1)), first=second)
    chain.add("Concat", first, axis=1)
    chain.add("Gather", chain.constant(np.array(3)), axis=1)
    imported = ends(chain, 25, tmp_path)
    assert kinds(imported)[:2] == [Conv2d, ChannelShuffle]
    assert ChannelSlice in kinds(imported) and Concat in kinds(imported)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_flatten_at_any_axis(axis: int, tmp_path: Path) -> None:
    chain = Chain(3, 4, 5)
    chain.inputs[0].type.tensor_type.shape.dim[0].dim_value = 1
    chain.add("Relu")
    chain.add("Flatten", axis=axis)
    checked(chain.model(), tmp_path)


def test_the_batch_axis_may_be_moved_and_restored(tmp_path: Path) -> None:
    """As in recurrent text readers: time first, [T, batch, features]."""
    chain = Chain(1, 8, 12)
    chain.conv((1, 5))
    chain.add("ReduceMean", chain.constant([2]), keepdims=0)
    chain.add("Transpose", perm=[2, 0, 1])
    chain.add("MatMul", chain.weight(5, 4))
    time_first = chain.add("Add", chain.weight(4))
    batch_first = chain.add("Transpose", perm=[1, 0, 2])
    imported = checked(chain.model(outputs=[time_first, batch_first]), tmp_path)
    assert [named.shape for named in imported.network.named_outputs] == [(10, 1, 4), (10, 4)]


def test_a_batch_that_the_file_fixes_is_not_moved(tmp_path: Path) -> None:
    chain = Chain(3, 4)
    chain.inputs[0].type.tensor_type.shape.dim[0].dim_value = 2
    chain.add("Transpose", perm=[1, 0, 2])
    with pytest.raises(ValueError, match="mixes the inputs of a batch, whose size is fixed at 2"):
        import_network(chain.save(tmp_path))


def windows_of_a_batch(batch: int) -> Chain:
    """Return the rows of a fixed-size batch, each split into four windows, as in Swin and YOLO12."""
    chain = Chain(8, 6)
    chain.inputs[0].type.tensor_type.shape.dim[0].dim_value = batch
    chain.add("Reshape", chain.constant([batch * 4, 2, 6]))
    chain.add("MatMul", chain.weight(6, 6))
    return chain


@pytest.mark.parametrize("batch", [2, 3])
def test_windows_of_a_batch_that_the_file_fixes(batch: int, tmp_path: Path) -> None:
    chain = windows_of_a_batch(batch)
    rows = chain.value
    turned = chain.add("Transpose", perm=[0, 2, 1])
    scores = chain.add("Softmax", first=chain.add("MatMul", turned, first=rows), axis=-1)
    chain.add("MatMul", rows, first=scores)
    chain.add("Expand", chain.constant([batch * 4, 2, 6]), first=chain.value)
    chain.add("Reshape", chain.constant([batch * 2, 4, 6]))
    chain.add("Reshape", chain.constant([-1, 8, 6]))
    ends(chain, 48, tmp_path)


def test_stacked_inputs_are_always_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chain = windows_of_a_batch(2)
    chain.add("Reshape", chain.constant([2, 48]))
    path = chain.save(tmp_path)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ValueError, match="must be compared with ONNX Runtime, but ONNX Runtime is not installed"):
        import_network(path)
    assert import_network(path, options=ImportOptions(unchecked=True)).comparison.skipped


@pytest.mark.parametrize("batch", [2, 3])
@pytest.mark.parametrize("selects", ["Split", "Gather"])
def test_heads_and_a_class_token_of_a_batch_that_the_file_fixes(batch: int, selects: str, tmp_path: Path) -> None:
    """As vision transformers are exported: the batch is the second axis until queries, keys and values are
    separated."""
    chain = Chain(6, 8)
    chain.inputs[0].type.tensor_type.shape.dim[0].dim_value = batch
    token = chain.constant(np.broadcast_to(chain.random.standard_normal((1, 1, 8)), (batch, 1, 8)))
    chain.add("Concat", "x", first=token, axis=1)
    chain.add("MatMul", chain.weight(8, 24))
    chain.add("Reshape", chain.constant([batch, 7, 3, 2, 4]))
    turned = chain.add("Transpose", perm=[2, 0, 3, 1, 4])
    if selects == "Split":
        chain.add("Split", outputs=3, axis=0, num_outputs=3)
        names = chain.nodes[-1].output
        query, key, value = (chain.add("Squeeze", chain.constant([0]), first=name) for name in names)
    else:
        query, key, value = (chain.add("Gather", chain.constant(np.array(i)), first=turned, axis=0) for i in range(3))
    keys = chain.add("Transpose", first=key, perm=[0, 1, 3, 2])
    chain.add("Softmax", first=chain.add("MatMul", keys, first=query), axis=-1)
    chain.add("MatMul", value)
    chain.add("Transpose", perm=[0, 2, 1, 3])
    chain.add("Reshape", chain.constant([batch, 7, 8]))
    ends(chain, 56, tmp_path)


@pytest.mark.parametrize("batch", [2, 3])
def test_a_fixed_batch_axis_may_be_moved_and_restored(batch: int, tmp_path: Path) -> None:
    """As in torch's attention: tokens first, then the batch, with which the heads are combined."""
    chain = Chain(5, 8)
    chain.inputs[0].type.tensor_type.shape.dim[0].dim_value = batch
    chain.add("Transpose", perm=[1, 0, 2])
    chain.add("MatMul", chain.weight(8, 8))
    chain.add("Unsqueeze", chain.constant([0]))
    chain.add("Squeeze", chain.constant([0]))
    chain.add("Reshape", chain.constant([5 * batch, 8]))
    chain.gemm(8, 8)
    chain.add("Reshape", chain.constant([5, batch * 2, 4]))
    chain.add("Transpose", perm=[1, 0, 2])
    chain.add("MatMul", chain.weight(4, 4))
    chain.add("Reshape", chain.constant([batch, 2, 5, 4]))
    ends(chain, 40, tmp_path)


@pytest.mark.parametrize(
    ("op", "constants", "more", "reason"),
    [
        ("ReduceMean", [[0]], {}, "cannot operate along the batch axis"),
        ("Softmax", [], {"axis": 0}, "cannot operate along the batch axis"),
        ("Transpose", [], {"perm": [1, 0, 2]}, "mixes the inputs of a batch, whose size is fixed at 2"),
        ("Unsqueeze", [[0]], {}, "mixes the inputs of a batch, whose size is fixed at 2"),
        ("Slice", [[0], [4], [0]], {}, "cannot select only a part of the batch"),
        ("Reshape", [[1, 16, 6]], {}, "mixes the inputs of a batch, whose size is fixed at 2"),
        ("Reshape", [[1, 3, 32]], {}, "cannot reshape a batch of 2 to"),
        ("Concat", None, {"axis": 0}, "cannot operate along the batch axis"),
    ],
)
def test_windows_of_several_inputs_are_not_mixed(op: str, constants, more: dict, reason: str, tmp_path: Path) -> None:
    chain = windows_of_a_batch(2)
    others = [chain.value] if constants is None else [chain.constant(each) for each in constants]
    chain.add(op, *others, **more)
    with pytest.raises(ValueError, match=reason):
        import_network(chain.save(tmp_path))


@pytest.mark.parametrize("shape", [(1, 2, 3, 3), (1, 5, 3, 3)])
@pytest.mark.parametrize("first", [False, True])
def test_numbers_beside_data(shape: tuple[int, ...], first: bool, tmp_path: Path) -> None:
    """BlazeFace concatenates zero channels to those of an image."""
    chain = Chain(3, 5, 5)
    chain.conv((3, 4))
    x = chain.value
    numbers = chain.constant(np.zeros(shape) if first else np.random.default_rng(0).standard_normal(shape))
    chain.add("Concat", x if first else numbers, first=numbers if first else x, axis=1)
    ends(chain, (4 + shape[1]) * 9, tmp_path, batch=1)


@pytest.mark.parametrize(("shape", "times"), [((3, 4, 5), [1, 2, 1, 3]), ((6,), [1, 4]), ((1, 4, 5), [1, 3, 2, 1])])
def test_tiles(shape: tuple[int, ...], times: list[int], tmp_path: Path) -> None:
    chain = Chain(*shape)
    chain.add("Relu")
    chain.add("Tile", chain.constant(times))
    checked(chain.model(), tmp_path)


def test_entries_in_any_order(tmp_path: Path) -> None:
    """RGB to BGR, by Gather, and by Slice from the last entry to the first."""
    chain = Chain(3, 6, 5)
    chain.add("Gather", chain.constant([2, 1, 0]), axis=1)
    chain.add("Slice", *(chain.constant([n]) for n in (2, -4, 1, -1)))
    chain.add("Slice", *(chain.constant([n]) for n in (0, 3, 1, 2)))
    chain.add("Gather", chain.constant([4, 0, 4, -2]), axis=3)
    chain.add("Flatten")
    chain.add("Gather", chain.constant([5, 47, 0]), axis=1)
    chain.gemm(3, 4)
    assert_imports(chain, tmp_path)


@pytest.mark.parametrize("op", ["Expand", "Tile"])
def test_axes_of_one_are_repeated(op: str, tmp_path: Path) -> None:
    chain = Chain(3, 4, 5)
    mean = chain.add("ReduceMean", chain.constant([1, 3]))
    chain.add(op, chain.constant([1, 3, 1, 5]), first=mean)
    ends(chain, 60, tmp_path)


def test_repetition_before_a_broadcast_is_omitted(tmp_path: Path) -> None:
    """x * gate.expand_as(x)."""
    chain = Chain(4, 9, 8)
    x = chain.value
    chain.add("GlobalAveragePool")
    chain.add("Sigmoid")
    chain.add("Expand", chain.constant([1, 4, 9, 8]))
    chain.add("Mul", chain.value, first=x)
    imported = ends(chain, 288, tmp_path)
    assert not [layer.name for layer in imported.network.layers if layer.name.startswith("repeat")]
    chain.nodes[-3].op_type = "Max"  # which may be read by something else, or not
    assert Conv2d in kinds(assert_imports(chain, tmp_path))


@pytest.mark.parametrize(
    ("axis", "start", "end", "step"),
    [
        (1, 1, 3, 1),
        (2, 1, 5, 1),
        (3, 2, 1 << 62, 1),
        (2, -5, -1, 2),
        (3, 0, 7, 3),
        (1, 0, 4, 2),
        (3, -1, -(1 << 62), -1),
        (2, 4, 0, -2),
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_slices_of_channels_rows_and_columns(axis: int, start: int, end: int, step: int, turned: bool) -> None:
    """Compared with NumPy, for an untransposed and a transposed image."""
    importer, x = importer_of(4, 6, 7), numbers(4, 6, 7)
    if turned:
        order = (2, 0, 1)
        importer.views["x"], x = importer.views["x"].permuted(order), x.transpose(0, 3, 1, 2)
        axis = 1 + order.index(axis - 1)
    importer.constants |= {name: np.array([n]) for name, n in zip("abcd", (start, end, axis, step))}
    OPERATORS["Slice"](importer, Node("Slice", "n", ("x", *"abcd"), ("y",), {}))
    index = [slice(None)] * 4
    index[axis] = slice(start, end, step)
    given = numbers(4, 6, 7)
    np.testing.assert_array_equal(value_of(importer, importer.views["y"], given), x[tuple(index)])


@pytest.mark.parametrize("batch", ["batch", 1])
def test_heads_stacked_before_the_batch(batch: str | int, tmp_path: Path) -> None:
    chain = Chain(6)
    if batch == 1:
        chain.inputs[0].type.tensor_type.shape.dim[0].dim_value = 1
    heads = []
    for _ in range(3):
        chain.add("Gemm", chain.weight(6, 4), first="x")
        heads.append(chain.add("Unsqueeze", chain.constant([0])))
    chain.add("Concat", *heads[1:], first=heads[0], axis=0)
    assert checked(chain.model(), tmp_path).network.output.kind == "values"


@pytest.mark.parametrize("op", ["Unsqueeze", "Reshape"])
def test_an_image_without_a_batch_or_channels(op: str, tmp_path: Path) -> None:
    chain = Chain()
    chain.inputs[0] = helper.make_tensor_value_info("x", TensorProto.FLOAT, (8, 7))
    chain.add(op, chain.constant([0, 1] if op == "Unsqueeze" else [1, 1, 8, 7]))
    chain.conv((1, 4))
    chain.add("GlobalAveragePool")
    chain.add("Flatten")
    checked(chain.model(), tmp_path)


def test_an_image_without_a_batch_as_a_row(tmp_path: Path) -> None:
    chain = Chain()
    chain.inputs[0] = helper.make_tensor_value_info("x", TensorProto.FLOAT, (8, 7))
    chain.add("Reshape", chain.constant([-1]))
    chain.add("MatMul", chain.weight(56, 5))
    checked(chain.model(), tmp_path)


@pytest.mark.parametrize("size, kernel", [(4, 2), (6, 2), (6, 3), (8, 4)])
def test_entries_at_equal_distances_are_a_view(size: int, kernel: int, tmp_path: Path) -> None:
    """As torch's exporter writes an unfolding into adjacent blocks: with Gather along rows and along columns."""
    chain = Chain(5, size, size)
    chain.conv((5, 5), (1, 1))
    places = np.arange(kernel)[:, None] + np.arange(0, size, kernel)
    chain.add("Gather", chain.constant(places), axis=2)
    chain.add("Gather", chain.constant(places), axis=4)
    chain.add("Transpose", perm=[0, 1, 2, 4, 3, 5])
    chain.add("Reshape", chain.constant([-1, 5, kernel**2, (size // kernel) ** 2]))
    chain.add("Softmax", axis=-1)
    imported = ends(chain, 5 * size * size, tmp_path)
    assert kinds(imported)[0] is Conv2d
    assert Conv2d not in kinds(imported)[1:]


@pytest.mark.parametrize("shift", [0, 2])
def test_windows_shifted_by_nothing(shift: int, tmp_path: Path) -> None:
    """torch.roll by 0 concatenates an empty slice."""
    chain = Chain(3, 6, 5)
    x = chain.add("Relu")
    last = chain.add("Slice", *(chain.constant([n]) for n in (6 - shift if shift else 6, 6, 2)), first=x)
    first = chain.add("Slice", *(chain.constant([n]) for n in (0, 6 - shift, 2)), first=x)
    chain.add("Concat", first, first=last, axis=2)
    ends(chain, 90, tmp_path)


def test_members_stacked_on_the_batch_axis(tmp_path: Path) -> None:
    """As skl2onnx writes an ensemble: [1, batch, classes] for each member, and their mean."""
    chain = Chain(5)
    members = []
    for _ in range(3):
        chain.add("Gemm", chain.weight(5, 4), first="x")
        members.append(chain.add("Reshape", chain.constant([1, -1, 4])))
    chain.add("Concat", *members[1:], first=members[0], axis=0)
    chain.add("ReduceMean", chain.constant([0]), keepdims=0)
    imported = checked(chain.model(), tmp_path)
    assert any("each input is computed as a separate batch" in note for note in imported.notes)


@pytest.mark.parametrize("op", ["Gather", "Split"])
@pytest.mark.parametrize("axis", [0, -4])
@pytest.mark.parametrize("is_open", [False, True])
def test_the_only_image_of_a_batch(op: str, axis: int, is_open: bool, tmp_path: Path) -> None:
    """As torch's exporters write `output[0]`."""
    chain = Chain(3, 6, 5)
    chain.conv((3, 4))
    if op == "Gather":
        chain.nodes.append(helper.make_node("Gather", [chain.value, chain.constant(np.array(0))], ["one"], axis=axis))
        chain.value = "one"
    else:
        chain.add("Split", chain.constant([1]), axis=axis)
    chain.add("Sigmoid")
    chain.add("Reshape", chain.constant([1, 4, -1]))
    model = chain.model()
    if not is_open:
        model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
    imported = checked(model, tmp_path)
    assert len(imported.network.layers) <= 4
    assert any("mixes the inputs of a batch" in note for note in imported.notes) == is_open


def test_a_choice_names_what_it_reads(tmp_path: Path) -> None:
    chain = Chain(4)
    chain.gemm(4, 6)
    chain.add("TopK", chain.constant([2]), outputs=2)
    chain.add("Relu")
    with pytest.raises(
        ModelError, match="it selects the largest scores; --output-name value0 selects the scores that it reads"
    ):
        import_network(chain.save(tmp_path))

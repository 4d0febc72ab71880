"""Elements selected along several axes by constant indices, compared with ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto
from onnx_chain import Chain, checked
from trninfer.models.errors import ModelError

PIXELS = [[0, 1], [5, 0], [2, -1]]


@pytest.mark.parametrize(
    ("order", "indices", "back"),
    [
        ([2, 3, 0, 1], PIXELS, [1, 2, 0]),  # as torch.export writes x[:, :, rows, columns]
        ([2, 3, 0, 1], [[PIXELS[0]], [PIXELS[2]]], [2, 3, 0, 1]),
        ([1, 0, 2, 3], [[0], [2]], [1, 0, 2, 3]),
        ([1, 2, 3, 0], [[0, 5, 4], [2, -6, 1]], [1, 0]),
    ],
)
def test_elements_along_several_axes(order: list, indices: list, back: list, tmp_path: Path) -> None:
    chain = Chain(3, 6, 5)
    chain.conv((3, 3), pads=[1] * 4)
    chain.add("Transpose", perm=order)
    chain.add("GatherND", chain.constant(np.array(indices)))
    chain.add("Transpose", perm=back)
    chain.add("Flatten")
    model = chain.model()
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
    checked(model, tmp_path)


@pytest.mark.parametrize("flipped", [False, True])
def test_a_grid_of_many_elements(flipped: bool, tmp_path: Path) -> None:
    """As torch.export spells out `nearest-exact`: repeated rows and columns."""
    chain = Chain(3, 36, 35)
    chain.conv((3, 4), pads=[1] * 4)
    chain.add("Transpose", perm=[2, 3, 0, 1])
    rows, columns = np.arange(72) // 2, (np.arange(70) // 2)[:: -1 if flipped else 1]
    chain.add("GatherND", chain.constant(np.stack(np.meshgrid(rows, columns, indexing="ij"), axis=-1)))
    chain.add("Transpose", perm=[2, 3, 0, 1])
    chain.add("MaxPool", kernel_shape=[3, 3])
    model = chain.model()
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
    checked(model, tmp_path)


@pytest.mark.parametrize(
    ("order", "indices", "reason"),
    [
        (
            [0, 1, 2, 3],
            [[0, 1]],
            "from each example of a batch is not supported; export the network for a batch of one",
        ),
        ([2, 3, 0, 1], [[6, 1]], "cannot select entries 6 to 6 of 6"),
        ([2, 3, 0, 1], [[0, 1, 0, 1, 2]], "each of its indices has 5 coordinates"),
    ],
)
def test_reasons_name_the_indices(order: list, indices: list, reason: str, tmp_path: Path) -> None:
    chain = Chain(3, 6, 5)
    chain.add("Transpose", perm=order)
    chain.add("GatherND", chain.constant(np.array(indices)))
    with pytest.raises(ModelError, match=reason):
        checked(chain.model(), tmp_path)


def with_batch(chain: Chain, batch: int) -> ModelProto:
    """Return the graph with a fixed batch size."""
    model = chain.model()
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = batch
    return model


def test_elements_of_the_only_input_of_a_batch(tmp_path: Path) -> None:
    chain = Chain(6)
    chain.add("GatherND", chain.constant([[0, 5], [0, -2]]))
    chain.add("Unsqueeze", chain.constant([0]))
    checked(with_batch(chain, 1), tmp_path)


@pytest.mark.parametrize("indices", [[[5], [0]], [[[1], [2]]], [[5, 1], [0, 3]]])
def test_elements_beside_the_inputs_of_a_batch(indices: list, tmp_path: Path) -> None:
    """A file with a fixed batch size that has moved the batch to the last axis."""
    chain = Chain(6, 4)
    chain.add("Transpose", perm=[1, 2, 0])
    chain.add("GatherND", chain.constant(indices))
    rank = np.ndim(indices) - 1 + 3 - np.shape(indices)[-1]
    chain.add("Transpose", perm=[rank - 1, *range(rank - 1)])
    checked(with_batch(chain, 2), tmp_path)


def test_elements_of_some_inputs_of_a_batch_are_refused(tmp_path: Path) -> None:
    chain = Chain(6, 4)
    chain.add("Transpose", perm=[1, 0, 2])
    chain.add("GatherND", chain.constant([[5, 1], [0, 1], [2, 0]]))
    with pytest.raises(ModelError, match="export the network for a batch of one"):
        checked(with_batch(chain, 2), tmp_path)

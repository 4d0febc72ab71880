"""GridSample at constant positions, compared with ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx_chain import Chain, ends
from trninfer.models.errors import ModelError
from trninfer.models.importing import import_network


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sampled")


@given(
    size=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    to=st.tuples(st.integers(1, 4), st.integers(1, 5)),
    mode=st.sampled_from(["linear", "nearest"]),
    padding=st.sampled_from(["zeros", "border", "reflection"]),
    corners=st.booleans(),
    batch=st.sampled_from([1, 2, 3, 4, 7, 16]),
    seed=st.integers(0, 99),
)
@settings(max_examples=40, deadline=None)
def test_images_are_sampled_as_onnx_runtime_does(folder, size, to, mode, padding, corners, batch, seed) -> None:
    chain = Chain(3, *size, seed=seed)
    chain.inputs[0].type.tensor_type.shape.dim[0].dim_value = batch  # ONNX requires as many grids as images
    chain.conv((3, 4), (1, 1))
    grid = np.random.default_rng(seed).uniform(-1.4, 1.4, (1, *to, 2)).astype(np.float32).repeat(batch, axis=0)
    chain.add("GridSample", chain.constant(grid), mode=mode, padding_mode=padding, align_corners=int(corners))
    ends(chain, 4 * to[0] * to[1], folder, batch=batch)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("corners", [0, 1])
def test_positions_halfway_between_pixels_are_rounded_as_in_float32(padding: str, corners: int, tmp_path: Path) -> None:
    for rows, columns in ((5, 7), (7, 4), (9, 3)):
        chain = Chain(1, 4, 6)
        across, down = (np.linspace(-1, 1, count) for count in (columns, rows))
        grid = np.stack(np.meshgrid(across, down), axis=-1)[None].astype(np.float32)
        chain.add("GridSample", chain.constant(grid), mode="nearest", padding_mode=padding, align_corners=corners)
        chain.add("Flatten")
        assert import_network(chain.save(tmp_path)).comparison.passed


def test_a_variable_batch_and_names_before_opset_20(tmp_path: Path) -> None:
    chain = Chain(3, 4, 6)
    chain.add("GridSample", chain.constant(np.zeros((1, 2, 2, 2), np.float32)), mode="bilinear")
    chain.add("Flatten")
    assert import_network(chain.save(tmp_path, opset=16)).comparison.passed


@pytest.mark.parametrize(
    ("grid", "attributes", "message"),
    [
        ("x", {}, "it samples an image at computed positions"),
        (np.zeros((1, 2, 2, 2)), {"mode": "cubic"}, "its mode 'cubic' is not supported; supported modes are"),
        (np.zeros((1, 90, 60, 2)), {}, "cannot sample 8x8 pixels at 90x60 positions; at most 4096"),
        (np.full((1, 2, 2, 2), np.nan), {}, "its positions are not .batch, rows, columns, 2. finite numbers"),
        (np.zeros((4, 2, 2, 2)), {}, "its positions differ among the images of a batch"),
    ],
)
def test_other_grids_are_refused_by_name(grid, attributes: dict, message: str, tmp_path: Path) -> None:
    chain = Chain(2, 8, 8)
    name = chain.constant(grid.astype(np.float32)) if isinstance(grid, np.ndarray) else chain.add("Relu")
    chain.add("GridSample", name, first="x", **attributes)
    with pytest.raises(ModelError, match=message):
        import_network(chain.save(tmp_path))

"""Upsampled and downsampled images, and transposed convolutions, compared with ONNX Runtime."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from onnx_chain import Chain, assert_imports
from trninfer.models.errors import ModelError
from trninfer.models.importing import import_network
from trninfer.models.layers import Conv2d

SETTINGS = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
SIDE = st.integers(1, 9)


def ends(chain: Chain, folder: Path, opset: int = 20, batch: int = 2) -> None:
    """Import a graph that ends in features, and compare its output."""
    chain.add("Flatten")
    assert_imports(chain, folder, opset, batch)


@SETTINGS
@given(
    side=st.tuples(SIDE, SIDE),
    size=st.tuples(SIDE, SIDE),
    mode=st.sampled_from(["nearest", "linear", "cubic"]),
    places=st.sampled_from(["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]),
    rounding=st.sampled_from(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]),
)
# positions that float32 does not round to an integer
@example(side=(7, 13), size=(1, 7), mode="nearest", places="half_pixel", rounding="floor")
def test_images_of_any_size_made_of_any_size(side, size, mode, places, rounding, tmp_path: Path) -> None:
    chain = Chain(3, *side)
    chain.add("Relu")
    how = {"mode": mode, "coordinate_transformation_mode": places}
    how |= {"nearest_mode": rounding} if mode == "nearest" else {}
    how |= {"cubic_coeff_a": -0.5, "exclude_outside": side[0] % 2} if mode == "cubic" and side[1] % 3 else {}
    chain.add("Resize", "", "", chain.constant([1, 3, *size]), **how)
    batch = 1  # the sizes include that of the batch, which must therefore be fixed
    chain.inputs[0].type.tensor_type.shape.dim[0].dim_value = batch
    ends(chain, tmp_path, 13, batch)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("size", [(5, 7), (13, 2), (4, 25), (1, 12)])
@pytest.mark.parametrize("outside", [0, 1])  # 1 is PyTorch's default
def test_smoothed_images(mode: str, size: tuple[int, int], outside: int, tmp_path: Path) -> None:
    chain = Chain(2, 13, 12)
    chain.inputs[0].type.tensor_type.shape.dim[0].dim_value = 1
    chain.add("Resize", "", "", chain.constant([1, 2, *size]), mode=mode, antialias=1, exclude_outside=outside)
    ends(chain, tmp_path, 18, 1)


@pytest.mark.parametrize(
    ("opset", "scales"),
    [
        *itertools.product((7, 9, 10, 11, 18), [(2.0, 2.0), (3.0, 1.0)]),
        *itertools.product((10, 11, 18), [(0.5, 1.5)]),  # Upsample, before opset 10, only enlarges
    ],
)
def test_scales_as_every_opset_reports_them(opset: int, scales: tuple[float, float], tmp_path: Path) -> None:
    op = "Upsample" if opset < 10 else "Resize"
    chain = Chain(2, 6, 4)
    factors = [1.0, 1.0, *scales]
    if opset == 7:
        chain.add(op, scales=factors)
    elif opset < 11:
        chain.add(op, chain.constant(factors))
    elif opset < 18:
        region = chain.constant(np.zeros(0, np.float32))
        chain.add(
            op, region, chain.constant(factors), coordinate_transformation_mode="asymmetric", nearest_mode="floor"
        )
    else:
        chain.add(op, "", chain.constant(list(scales)), axes=[2, 3], mode="linear")
    ends(chain, tmp_path, opset)


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_to_space_and_back(mode: str, tmp_path: Path) -> None:
    chain = Chain(8, 3, 6)
    chain.add("DepthToSpace", blocksize=2, mode=mode)
    chain.add("SpaceToDepth", blocksize=3)
    ends(chain, tmp_path)


@pytest.mark.parametrize(
    ("add", "says"),
    [
        (lambda c: c.add("Resize", "", c.constant([1.0, 1.0, 2.0, 2.0]), mode="area"), "its mode 'area' is not"),
        (lambda c: c.add("Resize", "", c.constant([2.0, 1.0, 1.0, 1.0])), "cannot resize the batch axis"),
        (lambda c: c.add("Resize", "", c.constant([2.0, 2.0])), "must contain one number per axis"),
        (lambda c: c.add("Resize", "", c.constant([1.0, 1.0, 0.1, 1.0])), "cannot resize 4 pixels to 0"),
        (lambda c: c.add("Resize", "", c.constant([1.0, 1.0, 1e5, 1.0])), "cannot resize 4 pixels to 400000; sizes"),
        (lambda c: c.add("Resize", "", "", c.constant([1, 2, 9, -1])), "cannot resize 4 pixels by -1"),
        (
            lambda c: c.add("Resize", "", "", c.constant([1, 2, 9, 9]), keep_aspect_ratio_policy="not_larger"),
            "its keep_aspect_ratio_policy",
        ),
        (lambda c: c.add("Pad", c.constant([0, 0, 4, 0, 0, 0, 0, 0]), mode="reflect"), "is too short to be padded"),
        (lambda c: c.add("Pad", c.constant([0, 0, 4, 0, 0, 0, 0, 0]), mode="mirror"), "its mode 'mirror' is unknown"),
        (lambda c: c.add("DepthToSpace", blocksize=2), "cannot rearrange an input of"),
        (lambda c: c.add("SpaceToDepth", blocksize=3), "cannot rearrange blocks of 3x3 pixels of"),
    ],
)  # fmt: skip
def test_unsupported_resampling_is_refused(add, says: str, tmp_path: Path) -> None:
    chain = Chain(2, 4, 4)
    add(chain)
    with pytest.raises(ModelError, match=says) as error:
        import_network(chain.save(tmp_path, 19))
    assert "\n" not in str(error.value)


def test_enlarging_by_repetition_is_exact(tmp_path: Path) -> None:
    chain = Chain(1, 2, 2)
    chain.add("Resize", "", chain.constant([1.0, 1.0, 2.0, 1.0]), coordinate_transformation_mode="asymmetric")
    chain.add("Flatten")
    imported = assert_imports(chain, tmp_path)
    weight = next(tensor for name, tensor in imported.tensors.items() if name.endswith("weight"))
    assert set(np.unique(weight)) <= {0.0, 1.0}


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize(("scales", "pixels"), [((2, 2), 4), ((1, 3), 3), ((0.5, 0.5), 1), ((2, 0.5), 2)])
def test_whole_numbers_of_times_are_one_convolution(
    mode: str, scales: tuple[float, float], pixels: int, tmp_path: Path
) -> None:
    """A filter for each channel and each phase of pixels, over the image with replicated edges."""
    chain = Chain(3, 6, 8)
    chain.add("Relu")
    chain.add("Resize", "", chain.constant([1.0, 1.0, *scales]), mode=mode)
    chain.add("Flatten")
    imported = assert_imports(chain, tmp_path)
    (only,) = [layer for layer in imported.network.layers if isinstance(layer, Conv2d)]
    assert (only.groups, only.out_channels) == (3, 3 * pixels)


def test_pixels_become_no_more_channels_than_a_layer_may_have(tmp_path: Path) -> None:
    """One pixel with many channels, resized to a full image: the pooled branch of DeepLab."""
    chain = Chain(130, 4, 4)
    chain.add("GlobalAveragePool")
    chain.add("Resize", "", "", chain.constant([1, 130, 28, 28]), mode="linear")
    chain.add("MaxPool", kernel_shape=[4, 4], strides=[4, 4])
    chain.inputs[0].type.tensor_type.shape.dim[0].dim_value = 1
    ends(chain, tmp_path, 13, 1)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("size", [(9, 7), (13, 3), (4, 1), (6, 5)])
@pytest.mark.parametrize("rule", ["half_pixel_symmetric", "tf_crop_and_resize", "tf_half_pixel_for_nn"])
def test_every_rule_of_coordinates(mode: str, size: tuple[int, int], rule: str, tmp_path: Path) -> None:
    chain = Chain(3, 6, 5)
    scales = chain.constant([1.0, 1.0, size[0] / 6 + 0.01, size[1] / 5 + 0.01])
    region = chain.constant([0.0, 0.0, 0.1, 0.2, 1.0, 1.0, 0.8, 1.1])
    way = {"mode": mode, "coordinate_transformation_mode": rule}
    if rule == "tf_crop_and_resize":
        chain.add("Resize", region, "", chain.constant([1, 3, *size]), extrapolation_value=1.5, **way)
    elif rule == "half_pixel_symmetric":
        chain.add("Resize", "", scales, **way)
    else:
        chain.add("Resize", region, scales, **way)
    path = tmp_path / "chain.onnx"
    path.write_bytes(chain.model(11 if rule == "tf_half_pixel_for_nn" else 19).SerializeToString())
    imported = import_network(path)
    assert imported.comparison.skipped == "" and imported.comparison.passed, imported.comparison


def test_blocks_that_are_folded(tmp_path: Path) -> None:
    chain = Chain(12, 6)
    chain.conv((12, 12), (1,))
    sizes = chain.constant([6, 4]), chain.constant([3, 2])
    chain.add("Col2Im", *sizes, strides=[3, 2])
    chain.conv((2, 3), (3, 3), pads=[1] * 4)
    with pytest.raises(ModelError, match="of \\[6, 4\\] from"):
        import_network(chain.save(tmp_path))  # 4 blocks instead of 6
    for sides in ([6, 4], [7, 5], [8, 4]):  # the blocks do not cover the last rows and columns
        chain = Chain(12, 4)
        chain.conv((12, 12), (1,))
        chain.add("Col2Im", chain.constant(sides), chain.constant([3, 2]), strides=[3, 2])
        chain.conv((2, 3), (3, 3), pads=[1] * 4)
        ends(chain, tmp_path)

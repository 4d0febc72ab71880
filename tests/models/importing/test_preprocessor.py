"""Pictures and classes as described by Hugging Face's and timm's files beside a network."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from onnx_chain import Chain
from PIL import Image
from trninfer.models.errors import ModelError
from trninfer.models.importing import ImportOptions, PreprocessingOptions, import_network
from trninfer.models.importing.preprocessor import read_beside, read_id2label
from trninfer.models.inputs import ImageInput
from trninfer.models.preprocess import preprocess

VIT = {
    "do_normalize": True, "do_rescale": True, "do_resize": True, "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5], "resample": 2, "rescale_factor": 0.00392156862745098,
    "size": {"height": 8, "width": 8}, "image_processor_type": "ViTFeatureExtractor",
}  # fmt: skip


def network(folder: Path, classes: int = 3, sides: tuple[object, object] = (8, 8)) -> Path:
    chain = Chain(3, *sides)
    chain.conv((3, 4))
    chain.add("GlobalAveragePool")
    chain.add("Flatten")
    chain.gemm(4, classes)
    return chain.save(folder)


def write(path: Path, data: object) -> Path:
    path.write_text(json.dumps(data))
    return path


def imported(folder: Path, data: dict, **options: object) -> ImageInput:
    write(folder / "preprocessor_config.json", data)
    result = import_network(network(folder), **options)
    assert isinstance(result.network.input, ImageInput)
    return result.network.input


def pixels(size: tuple[int, int] = (20, 12)) -> Image.Image:
    values = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), np.uint8)
    return Image.fromarray(values)


def test_a_squashed_picture(tmp_path: Path) -> None:
    spec = imported(tmp_path, VIT)
    assert (spec.resize_mode, spec.resize, spec.filter) == ("squash", 8, "bilinear")
    image = pixels()
    values = np.asarray(image.resize((8, 8), Image.Resampling.BILINEAR), np.float32) / 255
    np.testing.assert_allclose(preprocess(image, spec), (values.transpose(2, 0, 1) - 0.5) / 0.5, atol=1e-5)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"size": 10, "crop_size": 8, "do_center_crop": True, "resample": 3}, ("crop", 10, "bicubic")),
        ({"size": {"shortest_edge": 10}, "crop_size": {"height": 8, "width": 8}}, ("crop", 10, "bilinear")),
        ({"size": {"shortest_edge": 8}, "crop_pct": 0.8}, ("crop", 10, "bilinear")),
        ({"size": {"height": 12, "width": 12}, "crop_size": {"height": 8, "width": 8}}, ("squash", 12, "bilinear")),
        ({"resample": 1}, ("squash", 8, "lanczos")),
        ({"resample": 0}, ("squash", 8, "nearest")),
    ],
)
def test_sizes_and_filters(changes: dict, expected: tuple, tmp_path: Path) -> None:
    spec = imported(tmp_path, {**VIT, **changes})
    assert (spec.resize_mode, spec.resize, spec.filter) == expected


@pytest.mark.parametrize(
    ("changes", "black", "white"),
    [
        ({}, -1, 1),
        ({"do_normalize": False}, 0, 1),
        ({"do_rescale": False, "do_normalize": False}, 0, 255),
        ({"rescale_factor": 1 / 127.5, "rescale_offset": True, "do_normalize": False}, -1, 1),
        ({"rescale_factor": 1 / 127.5, "do_normalize": False}, 0, 2),
        ({"image_mean": [0.4] * 3, "image_std": [0.2] * 3}, -2, 3),
    ],
)
def test_ranges(changes: dict, black: float, white: float, tmp_path: Path) -> None:
    spec = imported(tmp_path, {**VIT, **changes})
    for colour, value in ((0, black), (255, white)):
        values = preprocess(Image.new("RGB", (9, 9), (colour,) * 3), spec)
        np.testing.assert_allclose(values, value, atol=1e-4)


def test_flipped_channels(tmp_path: Path) -> None:
    spec = imported(tmp_path, {**VIT, "do_flip_channel_order": True, "do_normalize": False})
    assert spec.channel_order == "bgr"
    assert preprocess(Image.new("RGB", (9, 9), (255, 0, 0)), spec)[:, 0, 0].tolist() == [0, 0, 1]


def test_options_of_the_user_take_precedence(tmp_path: Path) -> None:
    write(tmp_path / "preprocessor_config.json", VIT)
    path = network(tmp_path)
    assert import_network(path).assumed == ("pictures are assumed to be photos, not drawings of a digit (--pictures)",)
    options = PreprocessingOptions(mean=(0.1,), filter="lanczos")
    spec = import_network(path, options).network.input
    assert isinstance(spec, ImageInput)
    assert (spec.mean, spec.std, spec.filter, spec.resize_mode) == ((0.1,) * 3, (1.0,) * 3, "lanczos", "squash")
    digits = import_network(path, PreprocessingOptions(pictures="digit")).network.input
    assert isinstance(digits, ImageInput) and digits.preprocess == "digit" and digits.resize_mode == "crop"
    alone = import_network(path, options=ImportOptions(ignores_beside=True))
    assert isinstance(alone.network.input, ImageInput) and alone.network.input.resize_mode == "crop"
    assert len(alone.assumed) == 5


def test_sizes_that_the_network_leaves_open(tmp_path: Path) -> None:
    write(tmp_path / "preprocessor_config.json", VIT)
    path = network(tmp_path, sides=("height", "width"))
    assert import_network(path).network.input.shape == (3, 8, 8)
    assert import_network(path, PreprocessingOptions(size=(9, 7), resize=9)).network.input.shape == (3, 9, 7)


def test_labels_and_the_locations_of_files(tmp_path: Path) -> None:
    folder = tmp_path / "onnx"
    folder.mkdir()
    path = network(folder)
    names = {"0": "cat", "1": "dog", "2": "fish"}
    config = write(tmp_path / "config.json", {"id2label": names, "architectures": ["X"]})
    found = import_network(path)
    assert found.network.labels == ("cat", "dog", "fish") and found.labels_from == str(config)
    named = import_network(path, options=ImportOptions(preprocessor=config))
    assert named.network.labels == ("cat", "dog", "fish")
    assert import_network(path, labels=tuple("abc")).network.labels == tuple("abc")
    assert import_network(network(folder, classes=4)).network.labels == tuple("0123")
    write(folder / "preprocessor_config.json", VIT)  # beside the file, so the parent folder is not examined
    assert import_network(network(folder)).network.labels == tuple("012")


def test_timms_configuration(tmp_path: Path) -> None:
    config = {
        "architecture": "x", "label_names": ["n1", "n2", "n3"],
        "label_descriptions": {"n1": "cat", "n2": "dog", "n3": "fish"},
        "pretrained_cfg": {
            "input_size": [3, 8, 8], "mean": [0.1, 0.2, 0.3], "std": [0.5, 0.5, 0.5], "interpolation": "bicubic",
            "crop_pct": 0.8, "crop_mode": "center",
        },
    }  # fmt: skip
    write(tmp_path / "config.json", config)
    result = import_network(network(tmp_path))
    spec = result.network.input
    assert isinstance(spec, ImageInput) and result.network.labels == ("cat", "dog", "fish")
    assert (spec.mean, spec.resize, spec.filter, spec.resize_mode) == ((0.1, 0.2, 0.3), 10, "bicubic", "crop")


def test_networks_of_features_are_not_disturbed(tmp_path: Path) -> None:
    write(tmp_path / "preprocessor_config.json", VIT)
    chain = Chain(6)
    chain.gemm(6, 3)
    assert import_network(chain.save(tmp_path)).network.input.shape == (6,)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ([], "not a JSON object"),
        ({**VIT, "do_pan_and_scan": True}, "the step 'do_pan_and_scan' is unknown"),
        ({**VIT, "resample": 5}, "resample is 5; allowed: 0, 1, 2, 3"),
        ({**VIT, "size": {"height": 8}}, "unknown kind of configuration"),
        ({**VIT, "image_mean": "x"}, "unknown kind of configuration"),
        ({**VIT, "image_std": None}, "unknown kind of configuration"),
        (
            {**VIT, "size": {"height": 12, "width": 10}, "crop_size": 8, "do_center_crop": True},
            "which has a different aspect ratio",
        ),
    ],
)
def test_unreadable_file_named_by_the_user_is_refused(data: object, says: str, tmp_path: Path) -> None:
    path = network(tmp_path)
    named = write(tmp_path / "preprocessor_config.json", data)
    with pytest.raises(ModelError, match=says):
        import_network(path, options=ImportOptions(preprocessor=named))
    assert any(note.startswith("ignored: ") and str(named) in note for note in import_network(path).notes)


def test_a_folder_without_files(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"contains neither preprocessor_config\.json nor config\.json"):
        read_beside(tmp_path / "m.onnx", tmp_path)
    assert read_beside(tmp_path / "m.onnx").files == ()
    with pytest.raises(ModelError, match="no such file"):
        read_beside(tmp_path / "m.onnx", tmp_path / "none.json")


def test_numbers_from_0_up() -> None:
    assert read_id2label({"1": "b", "0": "a"}) == ("a", "b")
    for data in ({}, {"1": "a"}, {"0": "a", "2": "b"}, {"x": "a"}, [], None):
        assert read_id2label(data) is None


def test_options_over_others() -> None:
    file = PreprocessingOptions(mean=(0.1,), std=(0.2,), input_range=(0, 1), resize=9, filter="bicubic")
    assert PreprocessingOptions().over(file) == dataclasses.replace(file, is_beside=True)
    mine = PreprocessingOptions(input_range=(0, 255)).over(file)
    assert (mine.input_range, mine.mean, mine.std, mine.resize) == ((0, 255), None, None, 9) and mine.is_given

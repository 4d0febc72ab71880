"""Accuracy on pictures of known classes, with the preprocessing of the import and with its usual variants."""

from __future__ import annotations

import dataclasses
import functools
import threading
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from trninfer.inference import picture_check
from trninfer.inference.picture_check import PictureCheck, check_pictures
from trninfer.inference.pictures import decode_ahead
from trninfer.models import Conv2d, Dense, FeatureInput, Flatten, ImageInput, Model, Network, Output, Pool
from trninfer.models.errors import InputError
from trninfer.models.golden import run_network

SIDE = 8
COLOURS = {"red": (200, 30, 30), "green": (30, 200, 30), "blue": (30, 30, 200)}


def colour_model(**changes: object) -> Model:
    """Return a network that distinguishes red, green and blue pictures, trained on pixels from -1 to 1."""
    spec = ImageInput(3, SIDE, SIDE, "photo", (0.5,) * 3, (0.5,) * 3, SIDE)
    layers = (
        Conv2d("conv", 3, 3, (1, 1)),
        Pool("pool", "average", (SIDE, SIDE), (SIDE, SIDE)),
        Flatten("flat"),
        Dense("output", 3, 3),
    )
    network = Network("colours", dataclasses.replace(spec, **changes), layers, tuple(COLOURS))
    tensors = {
        "conv.weight": np.eye(3, dtype=np.float32)[:, :, None, None], "conv.bias": np.zeros(3, np.float32),
        "output.weight": np.eye(3, dtype=np.float32) * 3, "output.bias": np.zeros(3, np.float32),
    }  # fmt: skip
    return Model(network, tensors, {})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    for label, colour in COLOURS.items():
        (tmp_path / "pictures" / label).mkdir(parents=True)
        for number in range(4):
            values = np.array(colour) + random.integers(-20, 20, (20, 30, 3))
            Image.fromarray(values.astype(np.uint8)).save(tmp_path / "pictures" / label / f"{number}.png")
    return tmp_path / "pictures"


def results(check: PictureCheck) -> dict[str, int]:
    assert {way.total for way in check.ways} == {12}
    return {way.name: way.correct for way in check.ways}


def test_a_network_that_is_right_as_it_is(folder: Path) -> None:
    check = check_pictures(colour_model(), folder, None)
    found = results(check)
    assert found["as imported"] == 12 and check.better is None and not check.problems
    assert list(found) == [
        "as imported", "0 to 1", "0 to 255", "ImageNet's mean and deviation", "colours as bgr", "squashed",
    ]  # fmt: skip
    assert found["colours as bgr"] == 4  # only green keeps its position


def test_a_wrong_order_of_colours_is_seen(folder: Path) -> None:
    check = check_pictures(colour_model(channel_order="bgr"), folder, None)
    assert results(check)["as imported"] == 4
    better = check.better
    assert better is not None and (better.options, better.correct) == ("--channel-order rgb", 12)


def test_a_wrong_range_is_seen(folder: Path) -> None:
    """Pixels far from zero hide the differences that the biases expect."""
    model = colour_model(mean=(0.0,) * 3, std=(1 / 255,) * 3)
    model.tensors["output.bias"][:] = (100, 0, 0)
    check = check_pictures(model, folder, None)
    assert results(check)["as imported"] == 12
    small = check_pictures(dataclasses.replace(model, network=colour_model().network), folder, None)
    assert results(small)["as imported"] == 4
    assert small.better is not None and small.better.options == "--input-range 0,255"


def test_a_table_of_classes_by_label_and_by_number(folder: Path, tmp_path: Path) -> None:
    rows = ["picture,class"]
    for number, label in enumerate(COLOURS):
        rows += [f"{label}/{picture}.png,{label if picture % 2 else number}" for picture in range(4)]
    table = tmp_path / "labels.csv"
    table.write_text("\n".join(rows))
    assert results(check_pictures(colour_model(), folder, table))["as imported"] == 12
    table.write_text("\n".join(rows[:-4]))
    check = check_pictures(colour_model(), folder, table)
    assert check.ways[0].total == 8
    assert [problem.message for problem in check.problems] == [f"{table} contains no line for this picture"] * 4


def test_unusable_picture_is_reported_and_others_are_counted(folder: Path) -> None:
    (folder / "red" / "broken.png").write_bytes(b"no picture")
    (folder / "black").mkdir()
    Image.new("RGB", (9, 9)).save(folder / "black" / "0.png")
    check = check_pictures(colour_model(), folder, None)
    assert check.ways[0].total == 12
    told = {Path(str(problem.input)).name: problem.message for problem in check.problems}
    assert "'black' is not a class of the network; --expect FILE.csv" in told["0.png"] and "broken.png" in told


def test_few_pictures_of_a_network_that_takes_long(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture_check, "MAX_WORK", 1)
    check = check_pictures(colour_model(), folder, None)
    assert check.ways[0].total == picture_check.FEWEST and check.left_out == 12 - picture_check.FEWEST


def test_refusals(folder: Path, tmp_path: Path) -> None:
    features = Model(Network("n", FeatureInput(2), (Dense("d", 2, 2),), ("a", "b")), {}, {})
    values = dataclasses.replace(colour_model().network, labels=(), output=Output("values"))
    for model in (features, Model(values, {}, {}), colour_model(preprocess="none", resize=0)):
        with pytest.raises(InputError, match="a network that reads photos and outputs classes"):
            check_pictures(model, folder, None)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(InputError, match=r"no picture of a known class: .*no pictures in this folder"):
        check_pictures(colour_model(), empty, None)
    table = tmp_path / "short.csv"
    table.write_text("a.png,red\nb.png\n")
    with pytest.raises(InputError, match="line 2 must be a file name and a class"):
        check_pictures(colour_model(), folder, table)
    with pytest.raises(InputError, match="no such file"):
        check_pictures(colour_model(), folder, tmp_path / "none.csv")


def test_pictures_have_the_time_limits_of_others(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original, go = picture_check.open_image, threading.Event()

    def open_slowly(name: str) -> Image.Image:
        if name.endswith("0.png"):
            go.wait(60)
        return original(name)

    monkeypatch.setattr(picture_check, "open_image", open_slowly)
    monkeypatch.setattr(picture_check, "decode_ahead", functools.partial(decode_ahead, seconds=1.0))
    try:
        check = check_pictures(colour_model(), folder, None)
    finally:
        go.set()
    assert [problem.message for problem in check.problems] == ["not decoded within 1 seconds"] * 3
    assert {way.total for way in check.ways} == {9} and check.left_out == 0


def test_pictures_after_the_time_for_all_are_left_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture_check, "MAX_SECONDS", 0.0)
    check = check_pictures(colour_model(), folder, None)
    assert {way.total for way in check.ways} == {1} and check.left_out == 11


def test_pictures_held_together_are_bounded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []

    def run(network: Network, tensors: object, batch: np.ndarray) -> object:
        sizes.append(len(batch))
        return run_network(network, tensors, batch)  # type: ignore[arg-type]

    monkeypatch.setattr(picture_check, "run_network", run)
    monkeypatch.setattr(picture_check, "BATCH_BYTES", 3 * 6 * 3 * SIDE * SIDE * 4)  # three pictures in six variants
    assert set(results(check_pictures(colour_model(), folder, None)).values()) and set(sizes) == {3}

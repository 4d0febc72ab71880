"""Inputs from Python, one or many, converted to batches for a network."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from trninfer.inference.python_inputs import (
    PathOnly,
    PictureReader,
    as_array,
    is_array,
    prepare_picture,
    separate,
)
from trninfer.inference.python_rows import RowReader
from trninfer.models.errors import InputError
from trninfer.models.inputs import FeatureInput, ImageInput, NamedInput, SeveralInputs

PHOTO = ImageInput(3, 5, 5, "photo", (0.0,) * 3, (1.0,) * 3, 5)
GREY = ImageInput(1, 2, 2, "photo", (0.0,), (1.0,), 2)
PIXELS = np.random.default_rng(0).integers(0, 256, (5, 5, 3), np.uint8)
EXPECTED = PIXELS.transpose(2, 0, 1).astype(np.float32) / 255  # of the network's own size, so that they are not resized


def png(pixels: np.ndarray = PIXELS) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


class Exporter:
    def __init__(self, values: Any) -> None:
        self.values = values

    def __array__(self, dtype=None, copy=None) -> Any:
        if isinstance(self.values, Exception):
            raise self.values
        return self.values


def test_a_picture_in_every_form(tmp_path: Path) -> None:
    (tmp_path / "x.png").write_bytes(png())
    forms = {
        "path": tmp_path / "x.png", "text": str(tmp_path / "x.png"), "only": PathOnly(str(tmp_path / "x.png")),
        "bytes": png(), "bytearray": bytearray(png()), "view": memoryview(png()), "file": io.BytesIO(png()),
        "image": Image.fromarray(PIXELS), "pixels": PIXELS, "turned": np.asfortranarray(PIXELS),
        "exporter": Exporter(PIXELS), "numbers": EXPECTED, "double": EXPECTED.astype(np.float64),
    }  # fmt: skip
    for form, value in forms.items():
        found = prepare_picture(value, PHOTO)
        assert found.dtype == np.float32 and np.allclose(found, EXPECTED, atol=1e-6), form
    assert np.allclose(prepare_picture(PIXELS.transpose(2, 0, 1), PHOTO, "CHW"), EXPECTED)


@pytest.mark.parametrize("pixels", [PIXELS[:2, :2, 0], PIXELS[:2, :2, :1]])
def test_pixels_of_one_channel(pixels: np.ndarray) -> None:
    assert np.allclose(prepare_picture(pixels, GREY), PIXELS[None, :2, :2, 0] / 255, atol=1e-6)


@pytest.mark.parametrize(
    ("value", "spec", "layout", "message"),
    [
        (3, PHOTO, None, "int is not a picture; expected a path, bytes, a file, a PIL image or an array"),
        (None, PHOTO, None, "NoneType is not a picture"),
        (io.StringIO("x"), PHOTO, None, "the file was opened as text; open it with mode 'rb'"),
        (b"junk", PHOTO, None, "not a picture in a known format"),
        (
            PIXELS.transpose(2, 0, 1),
            PHOTO,
            None,
            r"an array of shape \[3, 5, 5\] and dtype uint8; .*; layout='CHW' specifies",
        ),
        (
            PIXELS,
            PHOTO,
            "CHW",
            r"shape \[5, 5, 3\] and dtype uint8; pictures must be uint8 \[H, W\], \[3, H, W\] or \[4, H, W\]",
        ),
        (EXPECTED.transpose(1, 2, 0), PHOTO, None, r"own input is \[3, 5, 5\] of float32; use layout='HWC' for it$"),
        (EXPECTED[:, :1], PHOTO, None, r"own input is \[3, 5, 5\] of float32$"),
        (np.zeros((0, 4, 3), np.uint8), PHOTO, None, r"an array of shape \[0, 4, 3\] and dtype uint8"),
        (np.zeros((2, 4, 2), np.uint8), PHOTO, None, r"an array of shape \[2, 4, 2\] and dtype uint8"),
        (np.zeros((2, 4, 3), np.int32), PHOTO, None, "dtype int32"),
        (np.full((3, 5, 5), np.nan, np.float32), PHOTO, None, "NaN"),
        (
            Exporter(RuntimeError("on a device\nmore")),
            PHOTO,
            None,
            "Exporter cannot be converted to an array: on a device$",
        ),
        (np.ma.masked_array(PIXELS, PIXELS > 9), PHOTO, None, "mask"),
    ],
)
def test_inputs_that_are_not_pictures_are_refused(
    value: Any, spec: ImageInput, layout: str | None, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        prepare_picture(value, spec, layout)


def test_inputs_that_become_arrays() -> None:
    assert is_array(PIXELS) and is_array(Exporter(PIXELS)) and not is_array([1, 2]) and not is_array("x")
    assert as_array(PIXELS) is PIXELS and as_array(Exporter(PIXELS)) is PIXELS

    class Tensor(Exporter):
        def detach(self) -> None:
            pass

    with pytest.raises(InputError, match=r"^Tensor cannot be converted to an array: TypeError; pass tensor.detach\(\)"):
        as_array(Tensor(TypeError()))


def names_of(inputs: Any, layout: str | None = None) -> list[Any]:
    return [name for name, _ in separate(inputs, layout)]


def test_one_or_several(tmp_path: Path) -> None:
    for name in ("a.png", "b.png", "notes.txt"):
        (tmp_path / name).write_bytes(png())
    both = [str(tmp_path / "a.png"), str(tmp_path / "b.png")]
    assert names_of(tmp_path) == both and names_of(f"{tmp_path}/*.png") == both
    assert names_of([tmp_path / "b.png", PIXELS, png()]) == [both[1], 1, 2]
    assert names_of(png()) == names_of(Image.fromarray(PIXELS)) == names_of(None) == names_of({"x": 1}) == [0]
    assert names_of(value for value in (PIXELS, PIXELS)) == [0, 1] and names_of([]) == []
    ((name, error),) = separate(tmp_path / "none.png")
    assert name == str(tmp_path / "none.png") and isinstance(error, InputError)


@pytest.mark.parametrize(
    ("shape", "dtype", "layout", "count"),
    [
        ((2, 4, 3), "u1", None, 1), ((5, 2, 4, 3), "u1", None, 5), ((5, 2, 7), "u1", None, 5),
        ((3, 2, 4), "u1", None, 1), ((3, 2, 7), "u1", "HWC", 3),
        ((3, 2, 7), "u1", None, 1), ((3, 2, 4), "u1", "CHW", 1), ((2, 4), "u1", None, 1),
        ((3, 2, 4), "f4", None, 1), ((7, 3, 2, 4), "f4", None, 7), ((5, 2, 7), "f4", None, 1),
        ((0, 3, 2, 4), "f4", None, 0),
    ],
)  # fmt: skip
def test_an_array_of_one_picture_or_of_several(shape, dtype, layout, count) -> None:
    assert names_of(np.zeros(shape, dtype), layout) == list(range(count))


def read(inputs: Any, spec: Any = PHOTO, size: int = 2, layout: str | None = None) -> tuple[list, list, list]:
    """Return the names, the batches, and the rejected inputs."""
    refused: list[tuple[Any, str]] = []
    found = list(PictureReader(inputs, spec, size, layout, lambda name, reason: refused.append((name, reason))))
    return [list(names) for names, _ in found], [batch for _, batch in found], refused


def test_batches_leave_out_what_cannot_be_used(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.stack([EXPECTED, 1 - EXPECTED]))
    names, batches, refused = read([PIXELS, b"junk", tmp_path / "x.npy", {"a": PIXELS}, PIXELS])
    path = str(tmp_path / "x.npy")
    assert names == [[0, f"{path}[0]"], [f"{path}[1]", 4]] and [batch.shape for batch in batches] == [(2, 3, 5, 5)] * 2
    assert np.allclose(batches[1][0], 1 - EXPECTED) and [name for name, _ in refused] == [1, 3]
    assert "pass a picture, not a dict" in refused[1][1] and read([]) == ([], [], [])
    assert read([PathOnly(path)])[2] == [(0, "holds 2 arrays; expected one")]


def test_inputs_are_read_lazily() -> None:
    taken = []

    def pictures():
        for number in range(100):
            taken.append(number)
            yield PIXELS

    reader = iter(PictureReader(pictures(), PHOTO, 3, None, print))
    next(reader)
    assert len(taken) <= 2 * 3 + 1


def test_several_inputs_by_name(tmp_path: Path) -> None:
    spec = SeveralInputs((NamedInput("left", PHOTO), NamedInput("bias", FeatureInput(2))))
    good = {"left": PIXELS, "bias": [1, 2]}
    np.save(tmp_path / "x.npy", np.stack([EXPECTED, EXPECTED]))
    wrong = [
        {"left": PIXELS}, PIXELS, {**good, "more": 1}, {**good, "bias": [1, np.inf]}, {**good, "bias": [1, 2, 3]},
        {**good, "bias": "x"}, {**good, "left": tmp_path / "x.npy"},
    ]  # fmt: skip
    names, (batch,), refused = read([good, *wrong, good], spec, 9)
    assert names == [[0, 8]] and np.allclose(batch, np.concatenate([EXPECTED.ravel(), [1, 2]])[None])
    assert [reason for _, reason in refused] == [
        *["the network has several inputs; pass a dict with 'left', 'bias'"] * 3,
        "input 'bias': got 2 numbers; expected 2 finite numbers",
        "input 'bias': got 3 numbers; expected 2 finite numbers",
        "input 'bias': numbers are of type <U1; expected real numbers",
        "input 'left': holds 2 arrays; expected one",
    ]  # fmt: skip


ROWS = np.arange(8, dtype=np.float32).reshape(4, 2)


def rows_of(inputs: Any, size: int = 3, header: str = "auto") -> tuple[list[int], list[list[float]], list]:
    refused: list[tuple[Any, str]] = []
    reader = RowReader(inputs, FeatureInput(2), size, header, lambda name, reason: refused.append((name, reason)))
    found = [(list(names), rows) for names, rows in reader]
    numbers = [name for names, _ in found for name in names]
    return numbers, [row for _, rows in found for row in rows.tolist()], refused


def test_rows_in_every_form(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", ROWS)
    buffer = io.BytesIO()
    np.save(buffer, ROWS)
    content = buffer.getvalue()
    forms = [
        tmp_path / "x.npy", str(tmp_path / "x.npy"), f"{tmp_path}/*.npy", content, io.BytesIO(content),
        [tmp_path / "x.npy"], ROWS, ROWS.tolist(), ROWS.astype(np.int64), Exporter(ROWS),
        [Exporter(row) for row in ROWS],
        (row for row in ROWS), iter([ROWS[:3], ROWS[3:]]), ROWS.ravel()[:2],
    ]  # fmt: skip
    for form in forms:
        numbers, rows, refused = rows_of(form)
        expected = ROWS if form is not forms[-1] else ROWS[:1]
        assert rows == expected.tolist() and numbers == list(range(len(expected))) and refused == [], form


def test_numbers_go_on_over_files_and_blocks(tmp_path: Path) -> None:
    bad = ROWS.copy()
    bad[1, 0] = np.nan
    np.save(tmp_path / "a.npy", bad)
    np.save(tmp_path / "b.npy", ROWS[:1])
    numbers, rows, refused = rows_of([tmp_path / "a.npy", tmp_path / "none.npy", tmp_path / "b.npy"], 2)
    assert numbers == [0, 2, 3, 4] and rows == [*ROWS[[0, 2, 3, 0]].tolist()]
    assert refused[0] == (1, "column 0 is nan; all values must be finite in float32")
    assert refused[1] == (str(tmp_path / "none.npy"), "no such file")
    assert rows_of(iter([ROWS[:1], ["x"], ROWS[1:2]]))[0] == [0, 1]


@pytest.mark.parametrize(
    ("inputs", "name", "message"),
    [
        ("none-*.npy", "none-*.npy", "no file matches"),
        (io.StringIO("1,2"), "features", "the file was opened as text"),
        ([[1, 2], [3]], "features", "inhomogeneous"),
        (["a"], "a", ""),
        (np.array(["1", "2"]), "features", "are of type <U1; expected real numbers"),
        (np.zeros((2, 3)), "features", "3"),
        (np.zeros((0, 2)), "features", ""),
        (7, "features", ""),
        (np.array([1 + 2j, 3]), "features", "complex128"),
    ],
)
def test_inputs_that_are_not_rows_are_refused(inputs: Any, name: str, message: str) -> None:
    numbers, _, refused = rows_of(inputs)
    assert numbers == [] and len(refused) == 1 and refused[0][0] == name and message in refused[0][1], refused


def test_headers_are_noted(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("0,1,2,3,4,5\n6,5,4,3,2,1\n")
    for header, numbers, noted in (("auto", [0], 1), ("no", [0, 1], 0)):
        reader = RowReader(tmp_path / "x.csv", FeatureInput(6), 9, header, print)
        assert [list(names) for names, _ in reader] == [numbers] and len(reader.notes) == noted
        assert all(note.startswith(f"{tmp_path / 'x.csv'}: line 1 (0, 1, ") for note in reader.notes)

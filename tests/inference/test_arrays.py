"""Arrays instead of pictures: shapes declared by the network, and invalid arrays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from trninfer.inference.arrays import read_arrays
from trninfer.models.errors import InputError
from trninfer.models.inputs import ImageInput


def spec(layout: str = "CHW", channels: int = 3, height: int = 5, width: int = 4) -> ImageInput:
    return ImageInput(channels, height, width, "none", (0.0,) * channels, (1.0,) * channels, layout=layout)


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape)


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize(
    ("source", "shape"),
    [
        (spec(), (3, 5, 4)),
        (spec("HWC"), (5, 4, 3)),
        (spec("HW", channels=1), (5, 4)),
        (spec("CW", height=1), (3, 4)),
    ],
)
def test_one_example_or_several(source: ImageInput, shape: tuple, several: bool, tmp_path: Path) -> None:
    values = numbers(2, *shape) if several else numbers(*shape)
    path = tmp_path / "x.npy"
    np.save(path, values)
    found = read_arrays(str(path), source)
    assert found.dtype == np.float32 and found.shape == ((2, *source.shape) if several else source.shape)
    expected = np.moveaxis(values, -1, -3) if source.layout == "HWC" else values
    np.testing.assert_array_equal(found.ravel(), expected.astype(np.float32).ravel())


def test_the_axis_of_one_channel_may_be_there(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", numbers(6, 1, 5, 4))
    assert read_arrays(str(tmp_path / "x.npy"), spec("HW", channels=1)).shape == (6, 1, 5, 4)


def test_archives_and_column_major_arrays_are_read(tmp_path: Path) -> None:
    values = numbers(2, 3, 5, 4)
    np.savez_compressed(tmp_path / "x.NPZ.npz", x=values, other=np.zeros(3))
    np.testing.assert_array_equal(read_arrays(str(tmp_path / "x.NPZ.npz"), spec()), values.astype(np.float32))
    np.save(tmp_path / "f.npy", np.asfortranarray(values))
    np.testing.assert_array_equal(read_arrays(str(tmp_path / "f.npy"), spec()), values.astype(np.float32))


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (np.zeros((0, 3, 5, 4)), r"contains no examples, because its shape is \[0, 3, 5, 4\]"),
        (
            np.zeros((3, 4, 5)),
            r"the array has the shape \[3, 4, 5\], but the network expects \[3, 5, 4\] or \[N, 3, 5, 4\]",
        ),
        (np.zeros((1, 1, 3, 5, 4)), "the network expects"),
        (np.full((3, 5, 4), np.nan), "contains NaN, infinity"),
        (np.full((3, 5, 4), 1e300), "numbers outside the range of float32"),
        (np.zeros((3, 5, 4), complex), "expected real numbers"),
        (np.array([None]), "Python objects"),
    ],
)
def test_unusable_array_is_reported(values: np.ndarray, says: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", values)
    with pytest.raises(InputError, match=says):
        read_arrays(str(tmp_path / "x.npy"), spec())


def test_files_that_are_cut_short_or_huge(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.zeros((3, 5, 4)))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InputError, match="takes 480 bytes, but the file has 479"):
        read_arrays(str(path), spec())
    with pytest.raises(InputError, match="no such file"):
        read_arrays(str(tmp_path / "y.npy"), spec())
    header = np.lib.format.open_memmap(path, "w+", np.uint8, (1 << 31,))
    del header
    with pytest.raises(InputError, match=r"takes 2,147,483,648 bytes, which exceeds the limit of 536,870,912"):
        read_arrays(str(path), spec())

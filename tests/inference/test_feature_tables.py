"""Feature arrays saved by NumPy, valid and invalid."""

import zipfile
from pathlib import Path

import numpy as np
import pytest
from feature_files import ROWS, everything, npy_header
from trninfer.inference.features import read_features
from trninfer.models import budget
from trninfer.models.errors import InputError


@pytest.mark.parametrize("dtype", ["<f4", ">f8", "<f2", "<i4", "u1", "?"])
def test_arrays_of_any_real_type(tmp_path: Path, dtype: str) -> None:
    expected = ROWS.astype(dtype)
    for array in (expected, np.asfortranarray(expected)):
        np.save(tmp_path / "x.npy", array)
        assert np.array_equal(everything(tmp_path / "x.npy"), expected)
        for save in (np.savez, np.savez_compressed):
            save(tmp_path / "x.npz", array)
            assert np.array_equal(everything(tmp_path / "x.npz"), expected)


def test_one_row_may_be_flat(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", ROWS[0])
    assert everything(tmp_path / "x.npy").tolist() == ROWS[:1].tolist()


@pytest.mark.parametrize(
    ("member", "message"),
    [
        (npy_header("(999999999999, 4)"), "takes 15999999999984 bytes, but the file has 0"),
        (npy_header("(2, 4)") + bytes(31), "takes 32 bytes, but the file has 31"),
        (npy_header("(1,)", "'|O'") + b"\x80\x04N.", "never unpickled"),
        (b"\x93NUMPY\x07\x00", "not a readable array"),
        (b"", "not a readable array"),
    ],
)
def test_archives_whose_headers_lie(tmp_path: Path, member: bytes, message: str) -> None:
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", member)
    with pytest.raises(InputError, match=message):
        read_features(tmp_path / "x.npz", 4)


def test_a_small_archive_does_not_unpack_to_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "MIN_BYTES", ROWS.nbytes)
    monkeypatch.setattr(budget, "EXPANSION", 0)
    np.savez_compressed(tmp_path / "x.npz", x=np.asfortranarray(ROWS))
    assert np.array_equal(everything(tmp_path / "x.npz"), ROWS)
    rows = ROWS.nbytes // 32 + 1
    header = npy_header(f"({rows}, 4)", "'<f8'").replace(b"False", b"True ")
    with (
        zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("x.npy", "w") as member,
    ):
        member.write(header)
        member.write(bytes(32 * rows))
    with pytest.raises(InputError, match=r"in Fortran order"):
        read_features(tmp_path / "x.npz", 4)


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_every_version_of_the_format(tmp_path: Path, version: tuple[int, int]) -> None:
    with (tmp_path / "x.npy").open("wb") as file:
        np.lib.format.write_array(file, ROWS, version=version)
    assert np.array_equal(everything(tmp_path / "x.npy"), ROWS)


def test_damage_is_reported_without_the_words_of_libraries(tmp_path: Path) -> None:
    np.savez(tmp_path / "whole.npz", x=ROWS)
    whole = (tmp_path / "whole.npz").read_bytes()
    start = whole.rindex(b"PK\x05\x06")
    for offset in (b"\xff\xff\xff\x7f", b"\xff\xff\xff\xff"):  # the offset of the directory
        (tmp_path / "x.npz").write_bytes(whole[: start + 12] + offset * 2 + whole[start + 20 :])
        with pytest.raises(InputError, match=r"x\.npz: not an archive, or damaged$"):
            read_features(tmp_path / "x.npz", 4)


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("names", [("x.npy", "x.npy"), ("x", "x.npy"), ("a.npy", "a.npy", "x.npy")])
def test_archives_with_a_name_twice(tmp_path: Path, names: tuple[str, ...]) -> None:
    np.save(tmp_path / "x.npy", ROWS)
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        for name in names:
            archive.write(tmp_path / "x.npy", name)
    with pytest.raises(InputError, match=f"contains two arrays named '{names[0][0]}'"):
        read_features(tmp_path / "x.npz", ROWS.shape[1])


def test_archives_of_several_arrays_need_one_named_x(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", a=ROWS, b=ROWS)
    with pytest.raises(InputError, match="contains 2 arrays"):
        read_features(tmp_path / "x.npz", 4)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(1, 1), (3, 1), (1, 129), (127, 3)])
def test_columns_and_rows_are_not_swapped(tmp_path: Path, shape: tuple[int, int], order: str) -> None:
    values = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    np.save(tmp_path / "x.npy", np.array(values, order=order))  # type: ignore[call-overload]
    assert np.array_equal(everything(tmp_path / "x.npy", shape[1]), values)


@pytest.mark.parametrize(("name", "chosen"), [("x", True), ("X", True), ("y", False)])
def test_the_one_that_is_named_x(tmp_path: Path, name: str, chosen: bool) -> None:
    np.savez(tmp_path / "x.npz", a=ROWS + 100, **{name: ROWS})
    if chosen:
        assert np.array_equal(everything(tmp_path / "x.npz"), ROWS)
    else:
        with pytest.raises(InputError, match="contains 2 arrays; it must contain only one, or one named x"):
            everything(tmp_path / "x.npz")


def test_a_packing_that_numpy_does_not_write(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("x.npy", npy_header("(3, 4)") + ROWS.tobytes())
    with pytest.raises(InputError, match="the compression method is not one that NumPy writes"):
        everything(tmp_path / "x.npz")


def test_an_array_by_columns_that_is_cut_short(tmp_path: Path) -> None:
    """A directory may state a larger size than the file has."""
    np.savez_compressed(tmp_path / "x.npz", x=np.asfortranarray(np.random.default_rng(0).random((40, 4))))
    whole = (tmp_path / "x.npz").read_bytes()
    for end in range(60, len(whole), 97):
        (tmp_path / "x.npz").write_bytes(whole[:end] + whole[-200:])
        with pytest.raises(InputError):
            everything(tmp_path / "x.npz")

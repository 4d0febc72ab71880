"""Reading features and raw weights, valid and invalid."""

import io
from pathlib import Path

import numpy as np
import pytest
from feature_files import ROWS, everything, npy_header
from hypothesis import example, given
from hypothesis import strategies as st
from trninfer.inference.features import SUFFIXES, read_feature_bytes, read_features, read_weights
from trninfer.models.errors import InputError


@pytest.mark.parametrize("form", ["bin", "npy", "npz"])
def test_a_batch_at_a_time_from_anywhere(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"x.{form}"
    {"bin": lambda: ROWS.tofile(path), "npy": lambda: np.save(path, ROWS), "npz": lambda: np.savez(path, x=ROWS)}[
        form
    ]()
    with read_features(path, 4) as rows:
        assert len(rows) == 3
        assert [batch.tolist() for batch in rows.batches(2)] == [ROWS[:2].tolist(), ROWS[2:].tolist()]
        assert [batch.tolist() for batch in rows.batches(2, 1)] == [ROWS[1:].tolist()]


def test_a_file_that_is_cut_short_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    ROWS.tofile(path)
    with read_features(path, 4) as rows:
        path.write_bytes(bytes(20))
        with pytest.raises(InputError, match=r"x\.bin: truncated at row 1"):
            list(rows.batches(3))


def test_a_file_that_is_removed_meanwhile_is_still_there(tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    ROWS.tofile(path)
    with read_features(path, 4) as rows:
        path.unlink()
        assert np.array_equal(np.concatenate(list(rows.batches(2))), ROWS)


BAD = {
    "size.bin": (bytes(17), "its size, 17 bytes, is not a multiple of 16 bytes, the size of a row of 4 float32 values"),
    "empty.bin": (b"", "empty.bin: contains no rows, because it is empty"),
    "object.npy": (npy_header("(1,)", "'|O'") + b"\x80\x04N.", "never unpickled"),
    "absurd.npy": (npy_header("(999999999999, 4)"), "takes 15999999999984 bytes, but the file has 0"),
    "overflow.npy": (npy_header("(" + "9" * 40 + ", 4)"), "the file has 0"),
    "negative.npy": (npy_header("(-1, -4)") + bytes(64), "its shape [-1, -4] is not supported"),
    "zero.npy": (npy_header("(0, 4)"), "contains no rows"),
    "deep.npy": (npy_header("(" * 3000 + ")" * 3000), "not a readable array"),
    "header.npy": (
        b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + bytes(100),
        "its header claims to be 4294967295 bytes",
    ),
    "complex.npy": (npy_header("(1, 4)", "'<c8'") + bytes(32), "expected real numbers"),
    "text.npy": (b"not an array", "not a readable array"),
    "text.npz": (b"not an archive", "not an archive, or damaged"),
    "x.txt": (b"1 2 3 4", "must have the suffix .bin, .npy, .npz, .csv, .tsv, .parquet, not .txt"),
}


@pytest.mark.parametrize("name", BAD)
def test_files_that_are_refused(tmp_path: Path, name: str) -> None:
    content, message = BAD[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError) as error:
        read_features(tmp_path / name, 4)
    assert message in str(error.value) and "\n" not in str(error.value)


def packed() -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, x=ROWS)
    return buffer.getvalue()


@given(
    st.sampled_from([suffix for suffix in SUFFIXES if suffix != ".parquet"]),
    st.one_of(
        st.binary(max_size=200),
        st.text(alphabet="0123456789.,-einfa\n\"'", max_size=80).map(str.encode),
        st.tuples(st.integers(0, 200), st.integers(0, 255)).map(lambda at: _changed(packed(), *at)),
        st.tuples(st.integers(0, 150), st.integers(0, 255)).map(
            lambda at: _changed(npy_header("(3, 4)") + bytes(48), *at)
        ),
    ),
)
@example(".npz", packed())
def test_any_content_is_read_or_reported(tmp_path_factory: pytest.TempPathFactory, suffix: str, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / f"fuzzed{suffix}"
    path.write_bytes(content)
    try:
        rows = everything(path)
    except InputError as error:
        assert "\n" not in str(error)
    else:
        assert rows.shape[1] == 4 and np.isfinite(rows.astype(np.float32)).all()


def _changed(content: bytes, position: int, value: int) -> bytes:
    position %= len(content)
    return content[:position] + bytes([value]) + content[position + 1 :]


def test_bytes_are_read_in_the_format_that_they_begin_with() -> None:
    buffer = io.BytesIO()
    np.save(buffer, ROWS)
    text = "\n".join(",".join(map(str, row)) for row in ROWS.tolist())
    forms = {
        "npy": buffer.getvalue(),
        "npz": packed(),
        "bin": ROWS.tobytes(),
        "csv": text.encode(),
        "csv with a mark": b"\xef\xbb\xbfa,b,\xc3\xbc,d\r\n" + text.encode(),
        "tsv": text.replace(",", "\t").encode(),
    }
    for form, content in forms.items():
        with read_feature_bytes("bytes", content, 4) as rows:
            assert np.array_equal(np.concatenate(list(rows.batches(2))), ROWS), form
    for content, message in (
        (b"", "contains no rows"),
        (b"a,b\n1,2", "expects"),
        (b"\x93NUMPY", "not a readable array"),
        (b"PK\3\4", "not a"),
    ):
        with pytest.raises(InputError, match=f"^bytes: .*{message}"):
            read_feature_bytes("bytes", content, 4)


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 9))
def test_sizes_of_weights_are_inferred(
    tmp_path_factory: pytest.TempPathFactory, features: int, hidden: int, classes: int
) -> None:
    folder = tmp_path_factory.mktemp("weights")
    for name, count in (("W1", features * hidden), ("b1", hidden), ("W2", hidden * classes), ("b2", classes)):
        np.arange(count, dtype="<f4").tofile(folder / f"{name}.bin")
    model = read_weights(folder)
    assert model.network.input.shape == (features,) and len(model.network.labels) == classes
    assert model.tensors["hidden.weight"].shape == (features, hidden)
    assert model.tensors["output.weight"][0].tolist() == list(range(classes))  # row by row


def test_weights_with_nan(tmp_path: Path) -> None:
    for name, count in (("W1", 2), ("b1", 1), ("W2", 3), ("b2", 3)):
        np.full(count, np.nan if name == "W2" else 1, "<f4").tofile(tmp_path / f"{name}.bin")
    with pytest.raises(InputError, match=r"W2\.bin: row 0, column 0 is nan"):
        read_weights(tmp_path)

"""Safetensors files are read as by the safetensors library, and rejected if their tables are invalid."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file
from trninfer.models.errors import ModelError
from trninfer.models.tensor_file import MAX_HEADER_BYTES, check_types, read_table, read_tensors

WEIGHT = np.arange(6, dtype=np.float32).reshape(3, 2)
BIAS = np.array([0.5, -2], np.float32)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.safetensors"
    save_file({"weight": WEIGHT, "bias": BIAS}, path, {"made_by": "hand"})
    return path


def read(path: Path) -> dict[str, np.ndarray]:
    """Return all tensors of a file that passed the checks."""
    table = read_table(path)
    check_types(table, table.entries)
    return read_tensors(table, table.entries)


def with_header(raw: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """Return the bytes of a file with a modified JSON header and unmodified data."""
    length = struct.unpack("<Q", raw[:8])[0]
    text = change(raw[8 : 8 + length])
    return struct.pack("<Q", len(text)) + text + raw[8 + length :]


def rewrite(path: Path, change: Callable[[dict], object]) -> None:
    """Modify the table of a file."""

    def changed(text: bytes) -> bytes:
        header = json.loads(text)
        change(header)
        return json.dumps(header).encode()

    path.write_bytes(with_header(path.read_bytes(), changed))


def test_tensors_and_metadata(saved: Path) -> None:
    table = read_table(saved)
    assert table.path == saved and table.metadata == {"made_by": "hand"}
    assert {name: entry.shape for name, entry in table.entries.items()} == {"weight": (3, 2), "bias": (2,)}
    tensors = read(saved)
    np.testing.assert_array_equal(tensors["weight"], WEIGHT)
    np.testing.assert_array_equal(tensors["bias"], BIAS)
    assert list(read_tensors(table, ["bias"])) == ["bias"]


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_half_precision_is_read_as_float32(dtype: type, tmp_path: Path) -> None:
    halves = np.array([1 / 3, -65504, 6e-8], np.float32).astype(dtype)
    save_file({"half": halves}, tmp_path / "half.safetensors")
    tensor = read(tmp_path / "half.safetensors")["half"]
    assert tensor.dtype == np.float32
    np.testing.assert_array_equal(tensor, halves.astype(np.float32))


def test_tensors_without_elements_and_without_axes(tmp_path: Path) -> None:
    tensors = {"none": np.zeros((0, 3), np.float32), "one": np.array(7, np.float32)}
    save_file(tensors, tmp_path / "odd.safetensors")
    found = read(tmp_path / "odd.safetensors")
    assert found["none"].shape == (0, 3) and found["one"].shape == () and found["one"] == 7


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "not a safetensors file, or truncated"),
        (b"hello", "not a safetensors file, or truncated"),
        (struct.pack("<Q", 1 << 60) + b"{}", "not a safetensors file, or truncated"),
        (struct.pack("<Q", 3) + b"{}", "not a safetensors file, or truncated"),
        (
            struct.pack("<Q", MAX_HEADER_BYTES + 1) + bytes(MAX_HEADER_BYTES + 1),
            "its header claims to be 4194305 bytes long; the limit is 4194304",
        ),
        (struct.pack("<Q", 4) + b"abcd", "not a safetensors file: its header is not JSON"),
        (struct.pack("<Q", 4) + b"\xff\xfe\xfd\xfc", "not a safetensors file: its header is not JSON"),
        (struct.pack("<Q", 100_000) + b"[" * 100_000, "not a safetensors file: its header is not JSON"),
        (struct.pack("<Q", 2) + b"[]", "not a safetensors file: its header is not a JSON object"),
        (struct.pack("<Q", 22) + b'{"__metadata__":{"a":1', "not a safetensors file: its header is not JSON"),
        (struct.pack("<Q", 24) + b'{"__metadata__":{"a":1}}', "its metadata values are not strings"),
        (struct.pack("<Q", 18) + b'{"__metadata__":7}', "its metadata values are not strings"),
    ],
)
def test_bytes_that_are_no_table(content: bytes, says: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.safetensors"
    path.write_bytes(content)
    with pytest.raises(ModelError) as error:
        read_table(path)
    assert str(error.value) == f"{path}: {says}"


def test_an_empty_table_is_one(tmp_path: Path) -> None:
    path = tmp_path / "empty.safetensors"
    path.write_bytes(struct.pack("<Q", 2) + b"{}")
    assert read(path) == {}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda h: h["bias"].update(data_offsets=[0, 1 << 50]), "tensor 'bias' extends beyond the file"),
        (lambda h: h["bias"].update(data_offsets=[24, 33]), "tensor 'bias' extends beyond the file"),
        (lambda h: h["bias"].update(data_offsets=[8, 0]), "tensor 'bias' extends beyond the file"),
        (lambda h: h["bias"].update(data_offsets=[0, 4]), "'bias' takes 4 bytes, which does not match its shape"),
        (lambda h: h["bias"].update(data_offsets=[-8, 0]), "'bias': its dtype, shape or data_offsets are invalid"),
        (lambda h: h["bias"].update(data_offsets=[0]), "data_offsets are invalid"),
        (lambda h: h["bias"].update(shape=[1 << 70]), r"which does not match its shape \[1180591620717411303424\]"),
        (lambda h: h["bias"].update(shape="2"), "data_offsets are invalid"),
        (lambda h: h["bias"].update(shape=[True, 2]), "data_offsets are invalid"),
        (lambda h: h["bias"].update(dtype=["F32"]), "data_offsets are invalid"),
        (lambda h: h["bias"].update(dtype="F64"), "tensor 'bias' is of type 'F64'; allowed: F32, F16, BF16"),
        (lambda h: h["bias"].update(dtype="F16"), "takes 8 bytes, which does not match its shape"),
        (lambda h: h.update(bias=3), "its entry is not a JSON object"),
        (lambda h: h["weight"].update(data_offsets=[4, 28]), "tensors 'bias' and 'weight' overlap"),
        (lambda h: h.pop("weight"), "belong to no tensor"),
    ],
)
def test_headers_that_lie(saved: Path, change: Callable, says: str) -> None:
    rewrite(saved, change)
    with pytest.raises(ModelError, match=says):
        read(saved)


def test_bytes_that_belong_to_no_tensor(saved: Path) -> None:
    content = saved.read_bytes()
    saved.write_bytes(content + b"more")
    with pytest.raises(ModelError, match="bytes 32 to 36 of the data belong to no tensor"):
        read(saved)
    saved.write_bytes(content + bytes(4))
    rewrite(
        saved, lambda h: [h[n].update(data_offsets=[p + 4 for p in h[n]["data_offsets"]]) for n in ("weight", "bias")]
    )
    with pytest.raises(ModelError, match="bytes 0 to 4 of the data belong to no tensor"):
        read(saved)


@pytest.mark.parametrize("name", ["bias", "__metadata__", "dtype"])
def test_headers_that_name_something_twice(saved: Path, name: str) -> None:
    twice = f'"{name}":{{}},"{name}":'.encode()
    saved.write_bytes(with_header(saved.read_bytes(), lambda text: text.replace(f'"{name}":'.encode(), twice)))
    with pytest.raises(ModelError, match=rf"^{saved}: its header contains the name '{name}' twice$"):
        read_table(saved)


def test_a_file_that_changes_while_it_is_read(saved: Path) -> None:
    table = read_table(saved)
    saved.write_bytes(saved.read_bytes()[:-4])
    with pytest.raises(ModelError, match=rf"^{saved}: truncated within tensor '(bias|weight)'$"):
        read_tensors(table, table.entries)
    saved.unlink()
    with pytest.raises(ModelError, match=rf"^{saved}: cannot be read: No such file or directory$"):
        read_tensors(table, table.entries)


def test_invalid_tensor_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"none\.safetensors: no such file$"):
        read_table(tmp_path / "none.safetensors")
    with pytest.raises(ModelError, match=r"not a regular file$"):
        read_table(tmp_path)

"""The memory that the contents of a file may take."""

from __future__ import annotations

import json
import os
import struct
import tracemalloc
import zipfile
from pathlib import Path

import pytest
from PIL import Image
from trninfer.inference.arrays import read_arrays
from trninfer.models import preprocess
from trninfer.models.budget import EXPANSION, MAX_BYTES, MIN_BYTES, Budget, OverBudget, check_json
from trninfer.models.errors import InputError, ModelError
from trninfer.models.inputs import ImageInput
from trninfer.models.tensor_file import read_table, read_tensors

SPEC = ImageInput(1, 64, 64, "none", (0.0,), (1.0,), layout="CHW")


def test_budget_accumulates() -> None:
    budget = Budget(10)
    budget.take(4, "a")
    budget.take(6, "b")
    with pytest.raises(OverBudget, match="c takes 11 bytes, which exceeds the limit of 10"):
        budget.take(1, "c")
    assert budget.taken == 10


def test_a_file_may_take_some_times_its_size(tmp_path: Path) -> None:
    assert Budget.for_file(0).max_bytes == MIN_BYTES
    assert Budget.for_file(MIN_BYTES).max_bytes == min(MAX_BYTES, EXPANSION * MIN_BYTES)
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 40)
        assert Budget.of(file).max_bytes == MIN_BYTES


def test_a_sparse_tensor_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    entry = {"dtype": "F32", "shape": [1 << 30], "data_offsets": [0, 1 << 32]}
    head = json.dumps({"x": entry}).encode()
    path = tmp_path / "x.safetensors"
    path.write_bytes(struct.pack("<Q", len(head)) + head)
    os.truncate(path, 8 + len(head) + (1 << 32))
    table = read_table(path)
    check_memory(
        lambda: read_tensors(table, ["x"]), ModelError, "tensor 'x', with those before it, takes 4,294,967,296"
    )


def test_an_archive_of_arrays_is_refused_by_what_it_becomes(tmp_path: Path) -> None:
    """An array of 8-bit zeros compresses well, and float32 takes four times its bytes."""
    path, count = tmp_path / "x.npz", 20_000
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({count}, 1, 64, 64)}}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("x.npy", "w") as member:
        member.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)
        for _ in range(count // 1000):
            member.write(bytes(64 * 64 * 1000))
    with pytest.raises(InputError, match="as float32 takes"):
        read_arrays(str(path), SPEC)


@pytest.mark.parametrize("form", ["PNG", "WEBP"])
def test_pictures_by_what_their_decoder_takes(tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preprocess, "MAX_DECODED_BYTES", 10_000)
    Image.new("RGB", (30, 30)).save(tmp_path / "x", form)
    if form == "PNG":
        preprocess.open_image(tmp_path / "x")
    else:
        with pytest.raises(InputError, match=r"too large: decoding 30x30 pixels of WEBP takes 15,300 bytes"):
            preprocess.open_image(tmp_path / "x")


def check_memory(call, error: type[Exception], message: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(error, match=message):
            call()
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("text", ["{},", "[],", '{"":0},', "[[[[]]]],"])
def test_json_that_takes_more_than_it_looks(text: str) -> None:
    many = text * (40_000_000 // len(text))
    for each in (many, many.encode()):
        with pytest.raises(OverBudget, match="its JSON takes"):
            check_json(each)


def test_json_of_records_and_of_numbers() -> None:
    row = json.dumps({"image_id": 397133, "bbox": [217.62, 240.54, 38.99, 57.75], "area": 1481.38, "id": 82445})
    check_json(row * 400_000)
    check_json("12," * 10_000_000)

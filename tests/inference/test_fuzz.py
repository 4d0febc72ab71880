"""Arbitrary bytes as a picture, as features or as a model are read or rejected with one line, in little memory."""

import io
import json
import struct
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image
from trninfer.app.errors import UsageError
from trninfer.app.journal import finished
from trninfer.inference.feature_rows import numbered
from trninfer.inference.features import read_features
from trninfer.inference.pictures import read_picture
from trninfer.models import ImageInput, ModelError, load_model
from trninfer.models.errors import InputError
from trninfer.models.files import WEIGHTS_DIRECTORY

SPECS = (
    ImageInput(1, 16, 16, "digit", (0.0,), (1.0,)),
    ImageInput(3, 16, 16, "photo", (0.0,) * 3, (1.0,) * 3, resize=20),
)
MEMORY = 65 << 20  # maximum memory in bytes for reading or rejecting a small file

FORMATS = {
    "BMP": "RGB", "GIF": "P", "JPEG": "RGB", "PNG": "RGBA", "PPM": "L", "TIFF": "RGB", "WEBP": "RGB",
}  # fmt: skip


def encoded(form: str, mode: str, **options: object) -> bytes:
    values = np.random.default_rng(0).integers(0, 255, (24, 20, 3), np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(values).convert(mode).save(buffer, form, **options)
    return buffer.getvalue()


WHOLE = [encoded(form, mode) for form, mode in FORMATS.items()]
WHOLE += [encoded("TIFF", "L", compression="tiff_lzw"), encoded("TIFF", "1", compression="group4")]


def changes(whole: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Draw files with some bytes changed, truncated, inserted or duplicated."""
    edits = st.lists(st.tuples(st.integers(0, 2000), st.binary(max_size=6), st.integers(0, 8)), min_size=1, max_size=4)

    def change(content: bytes, edits: list[tuple[int, bytes, int]]) -> bytes:
        for position, new, removed in edits:
            position %= len(content) + 1
            content = content[:position] + new + content[position + removed :]
        return content

    return st.builds(change, whole, edits)


def in_little_memory(read: Callable[[], object]) -> object:
    tracemalloc.start()
    try:
        return read()
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < MEMORY, f"{peak} bytes"


def resident(reset: bool = False) -> int:
    """Return the peak resident memory of this process in bytes, since its start or the latest reset; 0 except on
    Linux."""
    status = Path("/proc/self/status")
    if not status.exists():
        return 0
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    return 1024 * int(next(line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM")))


def check_picture(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    for spec in SPECS:
        try:
            values = in_little_memory(lambda spec=spec: read_picture(str(path), spec))
        except InputError as error:
            assert str(error) and "\n" not in str(error)
        else:
            assert isinstance(values, np.ndarray) and values.shape == spec.shape and np.isfinite(values).all()


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.one_of(changes(st.sampled_from(WHOLE)), st.binary(max_size=300)))
def test_pictures(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    check_picture(tmp_path_factory.getbasetemp() / "fuzzed.png", content)


def png(width: int, height: int, data: bytes, *more: tuple[bytes, bytes]) -> bytes:
    chunks = ((b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)), *more, (b"IDAT", data), (b"IEND", b""))
    packed = (struct.pack(">I", len(d)) + n + d + struct.pack(">I", zlib.crc32(n + d)) for n, d in chunks)
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


def deflated(size: int) -> bytes:
    """Return `size` MiB of zeros, deflated: one block repeated, and the checksum that zlib appends."""
    packer, zeros = zlib.compressobj(9), bytes(1 << 20)
    first, next_ = (packer.compress(zeros) + packer.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    return first + next_ * (size - 1) + packer.flush()[:-4] + struct.pack(">HH", (size << 20) % 65521, 1)


BOMB = deflated(200)
BOMBS = {
    "pixels": png(60_000, 60_000, BOMB),
    "text": png(20, 20, zlib.compress(bytes(420)), (b"zTXt", b"k\0\0" + BOMB)),
    "profile": png(20, 20, zlib.compress(bytes(420)), (b"iCCP", b"k\0\0" + BOMB)),
    "no pixels": png(0, 0, b""),
    "no height": b"P5 20 0 255\n",
    "no end": b"P5 " + b"9" * 5000,
    "size of 40 digits": b"P5 " + b"9" * 40 + b" 1 255\n",
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_as_pictures(tmp_path: Path, name: str) -> None:
    path = tmp_path / "bomb.png"
    path.write_bytes(BOMBS[name])
    for spec in SPECS:
        before = resident(reset=True)
        with pytest.raises(InputError) as error:
            read_picture(str(path), spec)
        assert "\n" not in str(error.value) and resident() - before < MEMORY


def test_more_data_than_pixels_are_left_packed(tmp_path: Path) -> None:
    (tmp_path / "bomb.png").write_bytes(png(20, 20, BOMB))
    before = resident(reset=True)
    read_picture(str(tmp_path / "bomb.png"), SPECS[1])
    assert resident() - before < MEMORY


def npz(content: bytes, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        archive.writestr("x.npy", content)
    return buffer.getvalue()


def npy(values: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, values)
    return buffer.getvalue()


ROWS = np.arange(12, dtype=np.float32).reshape(3, 4)
TABLES = {
    ".bin": [ROWS.tobytes()],
    ".npy": [npy(ROWS), npy(np.asfortranarray(ROWS)), npy(ROWS.astype(">f8"))],
    ".npz": [npz(npy(ROWS)), npz(npy(ROWS), zipfile.ZIP_STORED), npz(npy(ROWS), zipfile.ZIP_LZMA)],
    ".csv": [b"a,b,c,d\n1,2,3,4\n5,6,7,8\n", b'"1","2",3,4\r\n', b"\xef\xbb\xbf1e3,2,3,4"],
}


def read_table(path: Path) -> np.ndarray:
    """Return the rows of a file, except those rejected individually because they are not finite."""
    refused: dict[int, str] = {}
    with read_features(path, 4) as rows:
        read = list(numbered(rows, 2, refused.__setitem__))
        assert sum(len(numbers) for numbers, _ in read) + len(refused) == len(rows)
        assert all("finite" in reason for reason in refused.values())
        return np.concatenate([np.zeros((0, 4)), *(usable for _, usable in read)])


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(list(TABLES)).flatmap(
        lambda suffix: st.tuples(
            st.just(suffix), st.one_of(changes(st.sampled_from(TABLES[suffix])), st.binary(max_size=200))
        )
    )
)
@example((".npz", npz(npy(ROWS))))
@example((".csv", b"\0" * 300_000))
@example((".csv", b'"' + b"1" * 300_000))
@example((".csv", b"1_0,0x1,infinity,4\n"))
def test_features(tmp_path_factory: pytest.TempPathFactory, table: tuple[str, bytes]) -> None:
    suffix, content = table
    path = tmp_path_factory.getbasetemp() / f"fuzzed{suffix}"
    path.write_bytes(content)
    try:
        rows = in_little_memory(lambda: read_table(path))
    except InputError as error:
        assert str(error).startswith(str(path)) and "\n" not in str(error)
    else:
        assert isinstance(rows, np.ndarray) and rows.shape[1] == 4 and np.isfinite(rows.astype(np.float32)).all()


def header(shape: str) -> bytes:
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


def test_a_large_archive_is_read_in_little_memory(tmp_path: Path) -> None:
    rows = 20 << 20  # 320 MiB
    with (
        zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("x.npy", "w", force_zip64=True) as member,
    ):
        member.write(header(f"({rows}, 4)"))
        for _ in range(20):
            member.write(bytes(16 << 20))

    def first_of_all() -> int:
        with read_features(tmp_path / "x.npz", 4) as found:
            return len(found) + len(next(found.batches(2)))

    assert in_little_memory(first_of_all) == rows + 2


@pytest.mark.slow
def test_headers_in_archives_are_not_believed(tmp_path: Path) -> None:
    bomb = b"\x93NUMPY\x02\x00" + struct.pack("<I", 190 << 20) + bytes(190 << 20)
    for content in (bomb, header("(99999999999, 4)"), header("(0, 4)"), header("(-1, 4)"), header("()")):
        (tmp_path / "x.npz").write_bytes(npz(content))
        with pytest.raises(InputError):
            in_little_memory(lambda: read_table(tmp_path / "x.npz"))


def test_archives_whose_directory_lies(tmp_path: Path) -> None:
    content = bytearray(npz(npy(ROWS)))
    directory = content.index(b"PK\x01\x02")
    content[directory + 24 : directory + 28] = struct.pack("<I", 1 << 31)  # the uncompressed size
    (tmp_path / "x.npz").write_bytes(content)
    try:
        read_table(tmp_path / "x.npz")
    except InputError as error:
        assert "\n" not in str(error)


def model_file(table: object, data: bytes = b"") -> bytes:
    text = json.dumps(table).encode()
    return struct.pack("<Q", len(text)) + text + data


MODEL = (WEIGHTS_DIRECTORY / "digits-ffnn.safetensors").read_bytes()
LENGTH = struct.unpack("<Q", MODEL[:8])[0]
METADATA = json.loads(MODEL[8 : 8 + LENGTH])["__metadata__"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def check_model(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    try:
        in_little_memory(lambda: load_model(path))
    except ModelError as error:
        assert "\n" not in str(error)


@settings(max_examples=150, deadline=None)
@given(
    st.one_of(
        changes(st.just(MODEL[: 8 + LENGTH])).map(lambda head: head + MODEL[8 + LENGTH :]),
        st.binary(max_size=100),
        JSON.map(model_file),
        JSON.map(lambda value: model_file({"__metadata__": {**METADATA, "network": json.dumps(value)}})),
        st.tuples(JSON, JSON).map(lambda pair: model_file({"__metadata__": METADATA, "hidden.weight": pair[0]})),
    )
)
@example(
    model_file({"__metadata__": METADATA, "hidden.weight": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}})
)
@example(struct.pack("<Q", 1 << 62) + b"{}")
@example(struct.pack("<Q", 100_000) + b"[" * 100_000)
def test_models(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    check_model(tmp_path_factory.getbasetemp() / "fuzzed.safetensors", content)


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(["csv", "ndjson"]),
    st.one_of(
        changes(st.just(b"input,label,class_index,probability,error\na.png,1,1,0.5,\n")),
        changes(
            st.just(
                b'{"type": "prediction", "input": "a", "label": "1", "class_index": 1, "probability": 1.0, "top": []}\n'
            )
        ),
        JSON.map(lambda value: json.dumps({"type": "prediction", "input": value, "top": value}).encode() + b"\n"),
    ),
)
def test_reports_to_go_on_from(tmp_path_factory: pytest.TempPathFactory, form: str, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzzed.report"
    path.write_bytes(content)
    identity = {"command": "classify", "top_k": 0}
    try:
        answers = list(finished.read_finished(path, form, identity, tuple("0123456789")))
    except UsageError as error:
        assert "\n" not in str(error)
    else:
        assert all(answer.label == str(answer.class_index) for answer in answers)

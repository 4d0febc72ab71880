"""Model files: what is saved is read back, and nothing else is accepted."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file
from trninfer.models import Dense, FeatureInput, ModelError, Network, Softmax, load_model, save_model

NETWORK = Network("tiny", FeatureInput(3), (Dense("dense", 3, 2), Softmax("softmax")), ("no", "yes"))


def tensors() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "dense.weight": rng.normal(size=(3, 2)).astype(np.float32),
        "dense.bias": rng.normal(size=2).astype(np.float32),
    }


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.safetensors"
    save_model(path, NETWORK, tensors(), {"trained_on": "nothing"})
    return path


def rewrite_header(path: Path, change) -> None:
    """Change the JSON header of a safetensors file and leave its data as they are."""
    raw = path.read_bytes()
    length = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8 : 8 + length])
    change(header)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + raw[8 + length :])


def test_round_trip(saved: Path) -> None:
    model = load_model(saved)
    assert model.network == NETWORK
    assert model.metadata["trained_on"] == "nothing"
    for name, tensor in tensors().items():
        assert model.tensors[name].dtype == np.float32
        np.testing.assert_array_equal(model.tensors[name], tensor)


def test_the_safetensors_library_reads_our_files(saved: Path) -> None:
    for name, tensor in load_file(saved).items():
        np.testing.assert_array_equal(tensor, tensors()[name])


def test_the_same_model_gives_the_same_bytes(saved: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.safetensors"
    save_model(again, NETWORK, tensors(), {"trained_on": "nothing"})
    assert again.read_bytes() == saved.read_bytes()


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_half_precision_is_read_as_float32(tmp_path: Path, dtype) -> None:
    path = tmp_path / "half.safetensors"
    halves = {name: tensor.astype(dtype) for name, tensor in tensors().items()}
    save_file(halves, path, {"trninfer_format": "1", "network": NETWORK.to_json()})
    for name, tensor in load_model(path).tensors.items():
        assert tensor.dtype == np.float32
        np.testing.assert_array_equal(tensor, halves[name].astype(np.float32))


def test_saving_is_whole_or_not_at_all(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = saved.read_bytes()

    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full_disk)
    with pytest.raises(OSError, match="No space"):
        save_model(saved, NETWORK, tensors(), {})
    assert saved.read_bytes() == before
    assert [file.name for file in saved.parent.iterdir()] == [saved.name]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda t: t.pop("dense.bias"), "the tensor 'dense.bias' is missing"),
        (lambda t: t.update(more=np.zeros(1, np.float32)), "'more' belongs to no layer"),
        (lambda t: t.update({"dense.bias": np.zeros(3, np.float32)}), r"has shape \[3\], but the network needs \[2\]"),
        (lambda t: t.update({"dense.bias": np.array([0, np.nan], np.float32)}), "holds NaN or infinity"),
        (lambda t: t.update({"dense.bias": np.array([0, np.inf], np.float32)}), "holds NaN or infinity"),
        (lambda t: t.update({"dense.bias": np.zeros(2)}), "is of type 'F64'; allowed are F32, F16, BF16"),
    ],
)
def test_tensors_that_do_not_fit(tmp_path: Path, change, says: str) -> None:
    content = tensors()
    change(content)
    path = tmp_path / "bad.safetensors"
    save_file(content, path, {"trninfer_format": "1", "network": NETWORK.to_json()})
    with pytest.raises(ModelError, match=says):
        load_model(path)


@pytest.mark.parametrize(
    ("metadata", "says"),
    [
        (None, "without a trninfer network"),
        ({"network": NETWORK.to_json()}, "without a trninfer network"),
        ({"trninfer_format": "3", "network": "{}"}, "format version '3'; this release reads 1 and 2"),
        ({"trninfer_format": "1", "network": "{}"}, "the field 'name' is missing"),
    ],
)
def test_foreign_metadata(tmp_path: Path, metadata, says: str) -> None:
    path = tmp_path / "foreign.safetensors"
    save_file(tensors(), path, metadata)
    with pytest.raises(ModelError, match=says):
        load_model(path)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "not a safetensors file, or cut short"),
        (b"hello", "not a safetensors file, or cut short"),
        (struct.pack("<Q", 1 << 60) + b"{}", "not a safetensors file, or cut short"),
        (struct.pack("<Q", 5 << 20) + bytes(6 << 20), "its header claims 5242880 bytes; at most 4194304"),
        (struct.pack("<Q", 4) + b"abcd", "its header is not JSON"),
        (struct.pack("<Q", 4) + b"\xff\xfe\xfd\xfc", "its header is not JSON"),
        (struct.pack("<Q", 100_000) + b"[" * 100_000, "its header is not JSON"),
        (struct.pack("<Q", 2) + b"[]", "its header is no JSON object"),
        (struct.pack("<Q", 22) + b'{"__metadata__":{"a":1', "not JSON"),
        (struct.pack("<Q", 24) + b'{"__metadata__":{"a":1}}', "its metadata are not strings"),
    ],
)
def test_bytes_that_are_no_model(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "bad.safetensors"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=says) as error:
        load_model(path)
    assert "\n" not in str(error.value)
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda h: h["dense.bias"].update(data_offsets=[0, 1 << 50]), "lies outside the file"),
        (lambda h: h["dense.bias"].update(data_offsets=[8, 0]), "lies outside the file"),
        (lambda h: h["dense.bias"].update(data_offsets=[0, 4]), "takes 4 bytes, which does not fit its shape"),
        (lambda h: h["dense.bias"].update(data_offsets=[-8, 0]), "not what the format has"),
        (lambda h: h["dense.bias"].update(data_offsets=[0]), "not what the format has"),
        (lambda h: h["dense.bias"].update(shape=[1 << 70]), "has shape"),
        (lambda h: h["dense.bias"].update(shape="2"), "not what the format has"),
        (lambda h: h["dense.bias"].update(dtype=["F32"]), "not what the format has"),
        (lambda h: h.update({"dense.bias": 3}), "its entry is no JSON object"),
        (lambda h: h["dense.bias"].update(data_offsets=[4, 12]), "tensors 'dense.weight' and 'dense.bias' overlap"),
        (lambda h: h["dense.weight"].update(data_offsets=[8, 32]), "bytes 0 to 8 of the data belong to no tensor"),
        (lambda h: h.update({"dense.bias": h["dense.weight"] | {"shape": [2], "data_offsets": [0, 8]}}), "overlap"),
    ],
)
def test_headers_that_lie(saved: Path, change, says: str) -> None:
    rewrite_header(saved, change)
    with pytest.raises(ModelError, match=says):
        load_model(saved)


def test_bytes_that_belong_to_no_tensor(saved: Path) -> None:
    content = saved.read_bytes()
    saved.write_bytes(content + b"more")
    with pytest.raises(ModelError, match="bytes 32 to 36 of the data belong to no tensor"):
        load_model(saved)

    def move(header) -> None:
        for name in tensors():
            header[name]["data_offsets"] = [place + 4 for place in header[name]["data_offsets"]]

    saved.write_bytes(content + bytes(4))
    rewrite_header(saved, move)
    with pytest.raises(ModelError, match="bytes 0 to 4 of the data belong to no tensor"):
        load_model(saved)


@pytest.mark.parametrize("name", ["dense.bias", "__metadata__", "dtype"])
def test_headers_that_name_something_twice(saved: Path, name: str) -> None:
    content = saved.read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    text = content[8 : 8 + length].replace(f'"{name}":'.encode(), f'"{name}":{{}},"{name}":'.encode())
    saved.write_bytes(struct.pack("<Q", len(text)) + text + content[8 + length :])
    with pytest.raises(ModelError, match=f"its header names '{name}' twice"):
        load_model(saved)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(data=st.data())
def test_no_damage_escapes_as_another_error(saved: Path, data: st.DataObject) -> None:
    raw = saved.read_bytes()
    damaged = bytearray(raw[: data.draw(st.integers(0, len(raw)))])
    for _ in range(data.draw(st.integers(0, 4))):
        if damaged:
            damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    path = saved.with_name("damaged.safetensors")
    path.write_bytes(damaged)
    try:
        model = load_model(path)
    except ModelError as error:
        assert "\n" not in str(error)
    else:  # the damage hit a weight, or a string that may be anything
        assert all(np.isfinite(tensor).all() for tensor in model.tensors.values())


def test_names_and_paths_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"no such model; bundled are .*digits-cnn, digits-ffnn"):
        load_model("digits-rnn")
    with pytest.raises(ModelError, match="not a file"):
        load_model(tmp_path)
    with pytest.raises(ModelError, match=r"cannot be read|no such model"):
        load_model("x" * 5000)
    with pytest.raises(ModelError, match=r"cannot be read|no such model"):
        load_model("nul\0byte")
    with pytest.raises(ModelError, match="no such model"):
        load_model("../weights/digits-cnn")

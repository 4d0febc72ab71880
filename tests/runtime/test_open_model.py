"""ONNX files in place of a model: imported once, and again if any file that the import reads has changed."""

import json
from pathlib import Path

import numpy as np
import pytest
from trninfer.models.errors import ModelError
from trninfer.runtime import open_model as opening
from trninfer.runtime.open_model import open_model

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
from onnx_chain import Chain  # noqa: E402


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRNINFER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / opening.FOLDER


@pytest.fixture
def imports(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Record the imported files."""
    made: list[Path] = []
    plain = opening._import
    monkeypatch.setattr(opening, "_import", lambda path, *rest: made.append(path) or plain(path, *rest))
    return made


def save(folder: Path, scale: float = 1.0) -> Path:
    """Save a dense layer with known weights in an ONNX file."""
    chain = Chain(4)
    chain.add("Gemm", chain.constant(np.arange(12, dtype=np.float32).reshape(4, 3) * np.float32(scale)))
    return chain.save(folder)


def test_a_file_is_imported_once_and_kept(tmp_path: Path, cache: Path, imports: list[Path]) -> None:
    path, notes = save(tmp_path), []
    first, again = open_model(path, notes.append), open_model(str(path), notes.append)
    assert imports == [path] and len(list(cache.iterdir())) == 1
    for model in (first, again):
        assert model.network == first.network
        np.testing.assert_array_equal(next(iter(model.tensors.values())), next(iter(first.tensors.values())))
    command = f"trninfer import {path} -o chain.safetensors"
    assert len(notes) == 2 and all(command in note and "\n" not in note for note in notes)


def test_a_changed_file_or_configuration_is_imported_again(tmp_path: Path, cache: Path, imports: list[Path]) -> None:
    open_model(save(tmp_path))
    changed = open_model(save(tmp_path, 2.0))
    assert max(array.max() for array in changed.tensors.values()) == 22
    (tmp_path / "config.json").write_text(json.dumps({"id2label": {"0": "a", "1": "b", "2": "c"}}))
    assert open_model(tmp_path / "chain.onnx").network.labels == ("a", "b", "c")
    assert len(imports) == 3 and len(list(cache.iterdir())) == 3


def test_a_spoilt_entry_is_made_again(tmp_path: Path, cache: Path, imports: list[Path]) -> None:
    path = save(tmp_path)
    open_model(path)
    (entry,) = cache.iterdir()
    entry.write_bytes(entry.read_bytes()[:-3])
    open_model(path)
    open_model(path)
    assert len(imports) == 2


def test_a_cache_that_cannot_be_written_costs_nothing_but_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("TRNINFER_CACHE", str(tmp_path / "file"))
    assert open_model(save(tmp_path)).network.layers


def test_invalid_onnx_file_is_refused_in_one_line(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "bad.onnx").write_bytes(b"no protobuf")
    for name in ("bad.onnx", "missing.onnx"):
        with pytest.raises(ModelError) as error:
            open_model(tmp_path / name)
        assert name in str(error.value) and "\n" not in str(error.value)
    assert not cache.exists()


def test_other_models_are_read_as_before(imports: list[Path]) -> None:
    assert open_model("digits-ffnn").network.name == "digits-ffnn" and not imports

"""Unsupported network files are rejected with a command that converts them."""

from __future__ import annotations

import json
import pickle
import re
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from trninfer.models.errors import ModelError
from trninfer.models.importing import import_network


def archive(path: Path, *names: str) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        for name in names:
            file.writestr(name, b"x")
    return path


def filled(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def saved_model(path: Path) -> Path:
    path.mkdir()
    return filled(path / "saved_model.pb", b"x").parent


TFLITE = bytes(4) + b"TFL3"
HDF5 = b"\x89HDF\r\n\x1a\n" + bytes(16)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda f: filled(f / "a.tflite", TFLITE), "tf2onnx.convert --tflite {f}/a.tflite --output {f}/a.onnx"),
        (lambda f: filled(f / "b", TFLITE + bytes(9)), "a TensorFlow Lite model; python -m tf2onnx.convert"),
        (lambda f: filled(f / "a.h5", HDF5), 'keras.models.load_model("{f}/a.h5").export("{f}/a.onnx", format="onnx")'),
        (lambda f: archive(f / "a.keras", "config.json", "model.weights.h5"), 'keras.models.load_model("{f}/a.keras")'),
        (lambda f: archive(f / "a.pt", "a/data.pkl", "a/version"), "safetensors.torch as s; s.save_file(torch.load("),
        (lambda f: archive(f / "a.pth", "a/data.pkl"), 'torch.onnx.export(torch.load("{f}/a.pth", weights_only=False)'),
        (lambda f: archive(f / "s.pt", "s/data.pkl", "s/constants.pkl"), 'onnx.export(torch.jit.load("{f}/s.pt")'),
        (lambda f: filled(f / "a.pkl", pickle.dumps([1])), "skl2onnx.to_onnx"),
        (lambda f: filled(f / "a.bin", pickle.dumps([1])), "convert a state dict to safetensors with python"),
        (lambda f: saved_model(f / "model"), "-m tf2onnx.convert --saved-model {f}/model --output {f}/model.onnx"),
        (lambda f: filled(f / "a.ort", b"xx"), "import the .onnx file that it was made from"),
        (lambda f: archive(f / "a.zip", "net.onnx"), "an archive, which may be damaged; unpack it and pass the .onnx"),
        (lambda f: filled(f / "a.zip", b"PK\x03\x04x"), "an archive, which may be damaged"),
        (lambda f: filled(f / "a.txt", b"hello"), "neither .onnx nor .safetensors"),
        (lambda f: f, "a folder; pass the .onnx or .safetensors file in it"),
        (lambda f: f / "none.pt", "no such file"),
    ],
)  # fmt: skip
def test_refusals(make, says: str, tmp_path: Path) -> None:
    path = make(tmp_path)
    with pytest.raises(ModelError, match=re.escape(says.format(f=tmp_path))) as error:
        import_network(path)
    assert str(error.value).startswith(str(path)) and "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["net.pt", 'it\'s "one".pt'])
def test_the_lines_are_lines_of_a_shell(name: str, tmp_path: Path) -> None:
    """Every `python -c` in a message is valid in the shell and in Python."""
    with pytest.raises(ModelError) as error:
        import_network(archive(tmp_path / name, "a/data.pkl"))
    lines = re.findall(r"python -c .*?(?=, or a whole network|, with the network's own)", str(error.value))
    assert len(lines) == 2
    for line in lines:
        words = shlex.split(line)
        assert words[:2] == ["python", "-c"] and len(words) == 3
        compile(words[2], "line", "exec")
        assert json.dumps(str(tmp_path / name)) in words[2]


@pytest.mark.slow
def test_the_line_for_a_state_dict_works(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 3))
    torch.save(net.state_dict(), tmp_path / "net.pt")
    with pytest.raises(ModelError) as error:
        import_network(tmp_path / "net.pt")
    line = re.search(r"python -c .*?(?=, or a whole network)", str(error.value))
    assert line is not None
    subprocess.run([sys.executable, *shlex.split(line[0])[1:]], check=True)
    assert (tmp_path / "net.safetensors").stat().st_size > 100

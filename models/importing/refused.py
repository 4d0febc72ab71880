"""Recognise unsupported network files and suggest the commands that convert them."""

from __future__ import annotations

import json
import shlex
import zipfile
from pathlib import Path

from ..regular_files import describe, open_regular

_PICKLES = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
_HEAD = 16  # number of leading bytes that identify a format

# Formats that are recognised only by the file name, each with advice.
_OTHERS = {
    ".pb": "a TensorFlow graph; python -m tf2onnx.convert --saved-model FOLDER --output {onnx}",
    ".ort": "an ONNX file in ONNX Runtime's own format; import the .onnx file that it was made from",
    ".mlmodel": "a Core ML model; import the network that it was converted from",
    ".engine": "a TensorRT engine, compiled for one GPU; import the ONNX file that it was built from",
    ".trt": "a TensorRT engine, compiled for one GPU; import the ONNX file that it was built from",
    ".caffemodel": "a Caffe network; import it after converting it to ONNX",
}


def refuse(path: Path) -> str:
    """Explain why a file that is neither ONNX nor safetensors is not supported, with the command that converts it."""
    if path.is_dir():
        if (path / "saved_model.pb").is_file():
            return f"{path}: a TensorFlow model; {_tf2onnx('--saved-model', path)}"
        return f"{path}: a folder; pass the .onnx or .safetensors file in it"
    try:
        with open_regular(path) as file:
            start = file.read(_HEAD)
    except (OSError, ValueError) as error:
        return f"{path}: {describe(error)}"
    suffix = path.suffix.lower()
    if start[4:8] == b"TFL3" or suffix == ".tflite":
        return f"{path}: a TensorFlow Lite model; {_tf2onnx('--tflite', path)}"
    if start.startswith(b"\x89HDF\r\n\x1a\n") or suffix in (".h5", ".hdf5"):
        return f"{path}: a Keras model or its weights; {_keras(path)}"
    if start.startswith(b"PK\x03\x04"):
        return f"{path}: {_archive(path)}"
    if start.startswith(_PICKLES):
        return f"{path}: a pickle, which is never loaded because it can run code; {_pickled(path)}"
    if suffix in _OTHERS:
        return f"{path}: {_OTHERS[suffix].format(onnx=_quoted(path.with_suffix('.onnx')))}"
    return f"{path}: neither .onnx nor .safetensors"


def _archive(path: Path) -> str:
    """Identify a ZIP archive: Keras's own format, TorchScript, or a PyTorch pickle."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()[:10_000]
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError):
        names = ["data.pkl"] if path.suffix.lower() in (".pt", ".pth") else []
    if "model.weights.h5" in names or path.suffix.lower() == ".keras":
        return f"a Keras model; {_keras(path)}"
    if any(name.endswith("constants.pkl") for name in names):
        return f"a TorchScript program, which is never run; {_export('torch.jit.load', path)}"
    if any(name.endswith("data.pkl") for name in names):
        return f"a pickle, which is never loaded because it can run code; {_pickled(path)}"
    return "an archive, which may be damaged; unpack it and pass the .onnx or .safetensors file"


def _pickled(path: Path) -> str:
    source, onnx, tensors = (json.dumps(str(path.with_suffix(end))) for end in (path.suffix, ".onnx", ".safetensors"))
    if path.suffix.lower() in (".pkl", ".pickle", ".joblib"):
        return "if it is a model of scikit-learn: " + _python(
            "import joblib, skl2onnx; from skl2onnx.common.data_types import FloatTensorType as F; "
            f'm = joblib.load({source}); open({onnx}, "wb").write(skl2onnx.to_onnx(m, initial_types='
            '[("x", F([None, m.n_features_in_]))], options={"zipmap": False}).SerializeToString())'
        )
    state_dict = _python(
        f"import torch, safetensors.torch as s; s.save_file(torch.load({source}, weights_only=True), {tensors})"
    )
    return (
        f"convert a state dict to safetensors with {state_dict}, or a whole network to "
        f"ONNX with {_export('torch.load', path)}"
    )


def _export(load: str, path: Path) -> str:
    """Return the command that exports a PyTorch network to ONNX; the user must know the size of the input."""
    source, onnx = (json.dumps(str(path.with_suffix(end))) for end in (path.suffix, ".onnx"))
    # torch.export needs Python source, which a TorchScript file does not contain.
    more, way = (", weights_only=False", True) if load == "torch.load" else ("", False)
    call = f"torch.onnx.export({load}({source}{more}).eval(), torch.zeros(1, 3, 224, 224), {onnx}, dynamo={way})"
    return f"{_python(f'import torch; {call}')}, with the network's own picture size"


def _keras(path: Path) -> str:
    source, onnx = (json.dumps(str(path.with_suffix(end))) for end in (path.suffix, ".onnx"))
    return _python(f'import keras; keras.models.load_model({source}).export({onnx}, format="onnx")')


def _python(code: str) -> str:
    """Return a shell command that runs Python code."""
    return f"python -c {shlex.quote(code)}"


def _tf2onnx(option: str, path: Path) -> str:
    return f"python -m tf2onnx.convert {option} {_quoted(path)} --output {_quoted(path.with_suffix('.onnx'))}"


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))

"""`trninfer.import_model`: a checked network, saved or kept in memory, and the messages of the import."""

from pathlib import Path

import numpy as np
import pytest
import trninfer
from safetensors.numpy import save_file


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """Return the weights of a perceptron with six features and three classes, with the names of PyTorch's
    Sequential."""
    generator = np.random.default_rng(3)
    tensors = {
        "0.weight": generator.standard_normal((5, 6), np.float32), "0.bias": np.zeros(5, np.float32),
        "2.weight": generator.standard_normal((3, 5), np.float32), "2.bias": np.zeros(3, np.float32),
    }  # fmt: skip
    save_file(tensors, tmp_path / "mlp.safetensors")
    return tmp_path / "mlp.safetensors"


def test_a_network_in_memory_and_in_a_file(weights: Path, tmp_path: Path) -> None:
    kept = trninfer.import_model(weights, labels=["a", "b", "c"], activation="relu")
    assert kept.path is None and "wrote:" not in str(kept) and str(kept).startswith("read:")
    assert kept.check is not None and kept.check.passed
    target = tmp_path / "model.safetensors"
    written = trninfer.import_model(str(weights), str(target), labels=("a", "b", "c"), activation="relu")
    assert written.path == target and str(written).splitlines()[-1] == f"wrote:    {target}"
    rows = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
    answers = trninfer.predict(rows, model=kept.model, backend="sim")
    assert answers.labels == trninfer.predict(rows, model=target, backend="sim").labels
    assert set(answers.labels) <= {"a", "b", "c"} and repr(kept).startswith("<ImportedModel: ")


def test_refusals(weights: Path, tmp_path: Path) -> None:
    with pytest.raises(trninfer.ArgumentError, match="a list of names"):
        trninfer.import_model(weights, labels="abc")
    with pytest.raises(trninfer.ArgumentError, match="cannot be written"):
        trninfer.import_model(weights, tmp_path / "no" / "model.safetensors", activation="relu")
    (tmp_path / "bad.onnx").write_bytes(b"not ONNX")
    with pytest.raises(trninfer.ModelError, match=r"bad\.onnx"):
        trninfer.import_model(tmp_path / "bad.onnx")

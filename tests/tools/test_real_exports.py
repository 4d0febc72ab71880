"""Networks as their own packages export them are accepted, and run as ONNX Runtime runs them."""

from pathlib import Path

import numpy as np
import pytest
from trninfer.models.files import Model
from trninfer.models.golden import run_network
from trninfer.models.importing import import_network
from trninfer.runtime.session import Session
from trninfer.runtime.simulated import SimulatedBackend
from trninfer.tools.real_exports import EXPORTERS, Export, all_exports

TOLERANCE = 1e-4  # of the largest number, in float32


def test_every_export_has_a_name_of_its_own() -> None:
    keys = [export.key for export in all_exports((96, 160, 224))]
    assert len(keys) == len(set(keys))
    families = {key.partition("/")[0].partition(":")[0] for key in keys}
    assert families == {"ultralytics", "timm", "torchvision", "transformers", "scikit-learn"}
    assert sum(key.startswith("timm") and key.endswith("/96/script") for key in keys) >= 60


@pytest.mark.slow
@pytest.mark.parametrize("size", [64, 96])
@pytest.mark.parametrize("name", ["yolov5n", "yolov8n"])
def test_detectors_of_ultralytics(name: str, size: int, tmp_path: Path) -> None:
    pytest.importorskip("ultralytics")
    assert_runs(Export("ultralytics", name, size, "own"), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize("name", ["resnet18", "starnet_s1"])
def test_networks_of_timm(name: str, exporter: str, tmp_path: Path) -> None:
    pytest.importorskip("timm")
    pytest.importorskip("onnxscript")
    assert_runs(Export("timm: residual", name, 64, exporter), tmp_path)


@pytest.mark.slow
def test_estimators_of_scikit_learn(tmp_path: Path) -> None:
    pytest.importorskip("skl2onnx")
    for name in ("LogisticRegression", "MLPClassifier", "PCA"):
        assert_runs(Export("scikit-learn", name, 0, "own"), tmp_path)


def assert_runs(export: Export, folder: Path) -> None:
    """It is imported, is one launch, and answers batches of 1 and 3 as its golden model does, which ONNX Runtime has
    been compared with."""
    path = folder / "network.onnx"
    export.write(path)
    imported = import_network(path)
    assert imported.comparison.passed and imported.comparison.skipped == ""
    model = Model(imported.network, imported.tensors, {})
    for batch in (1, 3):
        session = Session(model, SimulatedBackend("trn2"), "float32", batch)
        assert session.launches_note is None or "quicker" in session.launches_note
        x = np.random.default_rng(batch).standard_normal((batch, *model.network.input.shape)).astype(np.float32)
        expected = run_network(model.network, model.tensors, x).probabilities
        error = np.abs(session.run(x).probabilities - expected).max()
        assert error <= TOLERANCE * max(1.0, float(np.abs(expected).max()))

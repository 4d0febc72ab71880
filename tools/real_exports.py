"""Networks built and exported by their own packages, with random weights, for `measure_exports`.

Each builder requires its package (ultralytics, timm, torchvision, transformers, skl2onnx) and downloads nothing.
Nothing from these packages is stored.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from .export_names import CLASSICAL, DETECTORS, MAPS, TIMM, TORCHVISION, TRANSFORMERS, YOLO
from .transformers_models import make_transformer

EXPORTERS = ("script", "dynamo")
MODES: dict[str, dict[str, Any]] = {"script": {"dynamo": False, "opset_version": 17}, "dynamo": {"dynamo": True}}

VANISHING = 2e-3  # largest magnitude of weights that are replaced


@dataclass(frozen=True)
class Export:
    """A network of a package, with a picture size and an exporter."""

    family: str
    name: str
    size: int
    exporter: str

    @property
    def key(self) -> str:
        """A unique name."""
        return f"{self.family}/{self.name}/{self.size}/{self.exporter}"

    def write(self, path: Path) -> None:
        """Build the network and write it as ONNX. Exceptions of its package are propagated."""
        package = self.family.partition(":")[0]
        MAKERS[package](self, path)


def all_exports(sizes: tuple[int, ...]) -> list[Export]:
    """Return all networks to test, in order."""
    exports = []
    for size in sizes:
        exports += [Export("ultralytics", name, size, "own") for name in YOLO.split()]
        for exporter in EXPORTERS:
            exports += [Export("torchvision", name, size, exporter) for name in TORCHVISION.split()]
            exports += [Export("torchvision: maps", name, size, exporter) for name in MAPS.split()]
            exports += [Export("torchvision: detectors", name, size, exporter) for name in DETECTORS.split()]
            exports += [
                Export(f"timm: {family}", name, size, exporter)
                for family, names in TIMM.items()
                for name in names.split()
            ]
            exports += [Export("transformers", name, size, exporter) for name in TRANSFORMERS.split()]
    return exports + [Export("scikit-learn", name, 0, "own") for name in CLASSICAL.split()]


def load_packages(exports: list[Export]) -> None:
    """Import the installed packages of some exports, so that forked processes need not import them."""
    packages = {export.family.partition(":")[0] for export in exports} - {"scikit-learn"}
    with contextlib.suppress(ImportError):
        if packages:
            _torchvision()
        for package in sorted(packages):
            import_module(package)


def _torch() -> Any:
    os.environ.setdefault("YOLO_OFFLINE", "1")
    torch = import_module("torch")
    torch.manual_seed(0)
    return torch


def _torchvision() -> Any:
    torch = _torch()
    # builds of torchvision for another version of torch register operators that are not called here
    torch.library.register_fake = lambda *given, **more: lambda function: function
    return import_module("torchvision")


def _export(model: Any, export: Export, path: Path) -> None:
    torch = _torch()
    picture = torch.zeros(1, 3, export.size, export.size)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        torch.onnx.export(_settled(model), (picture,), str(path), **MODES[export.exporter])


def _settled(model: Any) -> Any:
    """Return a model in evaluation mode, with random batch statistics.

    Weights that are initialized to almost zero, such as layer scales and last layers, are also randomized. Otherwise,
    the results of preceding layers would hardly affect the comparison.
    """
    torch = _torch()
    for module in model.modules():
        if getattr(module, "running_var", None) is not None:
            module.running_mean.data = torch.randn_like(module.running_mean) * 0.1
            module.running_var.data = torch.rand_like(module.running_var) + 0.5
    for weights in model.parameters():
        if weights.numel() and weights.is_floating_point() and weights.abs().max() < VANISHING:
            weights.data = torch.randn_like(weights) * 0.2
    return model.eval()


def _ultralytics(export: Export, path: Path) -> None:
    _torchvision()
    ultralytics: Any = import_module("ultralytics")
    with contextlib.chdir(path.parent) if hasattr(contextlib, "chdir") else contextlib.nullcontext():
        exported = ultralytics.YOLO(f"{export.name}.yaml").export(format="onnx", imgsz=export.size, verbose=False)
        shutil.move(exported, path)


def _timm(export: Export, path: Path) -> None:
    _torchvision()
    timm: Any = import_module("timm")
    try:
        model = timm.create_model(export.name, exportable=True, img_size=export.size)
    except TypeError:  # the network accepts pictures of any size
        model = timm.create_model(export.name, exportable=True)
    _export(model, export, path)


def _of_torchvision(export: Export, path: Path) -> None:
    torchvision = _torchvision()
    more: dict[str, Any] = {"weights": None}
    if export.family.endswith(("maps", "detectors")):
        more["weights_backbone"] = None
    if export.name in ("vit_b_32", "maxvit_t"):
        more |= {"image_size": export.size} if export.name == "vit_b_32" else {"input_size": (export.size, export.size)}
    model = torchvision.models.get_model(export.name, **more)
    _export(_FirstOutput.of(model) if export.family.endswith("maps") else model, export, path)


class _FirstOutput:
    """A wrapper around a module that returns the first value of its output dictionary."""

    @staticmethod
    def of(model: Any) -> Any:
        torch = _torch()

        class Leading(torch.nn.Module):  # type: ignore[misc, name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.model = model

            def forward(self, x: Any) -> Any:
                outputs = self.model(x)
                if not isinstance(outputs, dict):
                    return outputs
                keys = [name for name in ("out", "logits", "last_hidden_state") if name in outputs]
                return outputs[keys[0]] if keys else outputs[next(iter(outputs))]

        return Leading()


def _transformers(export: Export, path: Path) -> None:
    _torchvision()
    _export(_FirstOutput.of(make_transformer(export.name, export.size)), export, path)


def _scikit_learn(export: Export, path: Path) -> None:
    skl2onnx: Any = import_module("skl2onnx")
    types: Any = import_module("skl2onnx.common.data_types")
    estimators = dict(import_module("sklearn.utils").all_estimators())
    more = {"probability": True} if export.name == "SVC" else {}
    random = np.random.default_rng(0)
    x = random.standard_normal((120, 12)).astype(np.float32)
    y = (x[:, :3].sum(axis=1) > 0).astype(int) + (x[:, 0] > 1)
    model = estimators[export.name](**more).fit(x, y)
    options = {id(model): {"zipmap": False}} if hasattr(model, "predict_proba") else None
    exported = skl2onnx.to_onnx(model, initial_types=[("x", types.FloatTensorType([None, 12]))], options=options)
    path.write_bytes(exported.SerializeToString())


MAKERS: dict[str, Callable[[Export, Path], None]] = {
    "ultralytics": _ultralytics,
    "timm": _timm,
    "torchvision": _of_torchvision,
    "transformers": _transformers,
    "scikit-learn": _scikit_learn,
}

"""Networks built and exported by their own packages, with random weights, for `measure_exports`.

Each maker needs its package (ultralytics, timm, torchvision, transformers, skl2onnx) and downloads nothing. Nothing of
these packages is kept.
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

YOLO = tuple(
    f"{name}{task}"
    for name in ("yolov5n", "yolov8n", "yolo11n", "yolo26n")
    for task in ("", *(() if name == "yolov5n" else ("-seg", "-pose", "-cls")))
)

TIMM = {
    "residual": [
        "resnet18",
        "resnet26d",
        "resnext26ts",
        "seresnet18",
        "skresnet18",
        "resnest14d",
        "gcresnext26ts",
        "res2net50_26w_4s",
        "dla34",
        "dpn48b",
        "regnetx_002",
        "regnety_002",
        "resnetv2_50",
        "nf_regnet_b0",
        "repvgg_a0",
        "ecaresnet26t",
        "hrnet_w18_small",
    ],
    "plain and dense": [
        "vgg11",
        "densenet121",
        "inception_v3",
        "inception_next_atto",
        "vovnet39a",
        "ese_vovnet19b_dw",
        "cspresnet50",
        "cspdarknet53",
        "darknet53",
        "selecsls42",
        "xception41",
        "hardcorenas_a",
    ],
    "mobile": [
        "mobilenetv2_050",
        "mobilenetv3_small_050",
        "mobilenetv4_conv_small_050",
        "mnasnet_small",
        "efficientnet_lite0",
        "efficientnet_b0",
        "tf_efficientnetv2_b0",
        "mixnet_s",
        "fbnetc_100",
        "ghostnet_050",
        "ghostnetv2_100",
        "lcnet_050",
        "tinynet_e",
        "spnasnet_100",
        "rexnet_100",
        "semnasnet_075",
        "mobileone_s0",
        "starnet_s1",
        "fastvit_t8",
        "repghostnet_050",
        "edgenext_xx_small",
        "mobilevit_xxs",
        "mobilevitv2_050",
    ],
    "convnext": [
        "convnext_atto",
        "convnextv2_atto",
        "convmixer_768_32",
        "focalnet_tiny_srf",
        "hgnetv2_b0",
        "rdnet_tiny",
        "poolformer_s12",
    ],
    "attention": [
        "vit_tiny_patch16_224",
        "deit_tiny_patch16_224",
        "vit_small_patch14_dinov2",
        "swin_tiny_patch4_window7_224",
        "efficientformer_l1",
        "efficientvit_b0",
        "levit_128s",
        "shvit_s1",
        "pvt_v2_b0",
        "coat_lite_tiny",
        "mixer_s32_224",
        "gmlp_s16_224",
        "resmlp_12_224",
    ],
}

TORCHVISION = [
    "alexnet",
    "vgg11",
    "resnet18",
    "resnet50",
    "resnext50_32x4d",
    "wide_resnet50_2",
    "squeezenet1_1",
    "googlenet",
    "inception_v3",
    "densenet121",
    "mobilenet_v2",
    "mobilenet_v3_small",
    "mobilenet_v3_large",
    "mnasnet0_5",
    "shufflenet_v2_x0_5",
    "efficientnet_b0",
    "efficientnet_v2_s",
    "regnet_y_400mf",
    "regnet_x_400mf",
    "convnext_tiny",
    "vit_b_32",
    "swin_t",
    "swin_v2_t",
    "maxvit_t",
]
MAPS = ["deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large", "fcn_resnet50"]
DETECTORS = ["ssdlite320_mobilenet_v3_large", "retinanet_resnet50_fpn", "fcos_resnet50_fpn"]
TRANSFORMERS = [
    "vit",
    "deit",
    "dinov2",
    "dinov3_vit",
    "dinov3_convnext",
    "convnext",
    "convnextv2",
    "segformer",
    "mobilevit",
    "mobilevitv2",
    "resnet",
    "regnet",
    "swin",
    "poolformer",
]
CLASSICAL = [
    "LogisticRegression",
    "MLPClassifier",
    "MLPRegressor",
    "LinearSVC",
    "SVC",
    "GaussianNB",
    "LinearRegression",
    "PCA",
    "KNeighborsClassifier",
    "RandomForestClassifier",
]

EXPORTERS = ("script", "dynamo")
MODES: dict[str, dict[str, Any]] = {"script": {"dynamo": False, "opset_version": 17}, "dynamo": {"dynamo": True}}


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
        """Build the network and write it as ONNX; raises whatever its package raises."""
        package = self.family.partition(":")[0]
        MAKERS[package](self, path)


def all_exports(sizes: tuple[int, ...]) -> list[Export]:
    """Return everything to try, one network after another."""
    found = []
    for size in sizes:
        found += [Export("ultralytics", name, size, "own") for name in YOLO]
        for exporter in EXPORTERS:
            found += [Export("torchvision", name, size, exporter) for name in TORCHVISION]
            found += [Export("torchvision: maps", name, size, exporter) for name in MAPS]
            found += [Export("torchvision: detectors", name, size, exporter) for name in DETECTORS]
            found += [
                Export(f"timm: {family}", name, size, exporter) for family, names in TIMM.items() for name in names
            ]
            found += [Export("transformers", name, size, exporter) for name in TRANSFORMERS]
    return found + [Export("scikit-learn", name, 0, "own") for name in CLASSICAL]


def load_packages(exports: list[Export]) -> None:
    """Import the installed packages of some exports, so that forked processes need not."""
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
    # builds of torchvision for another torch register operators that nothing here calls
    torch.library.register_fake = lambda *given, **more: lambda function: function
    return import_module("torchvision")


def _export(model: Any, export: Export, path: Path) -> None:
    torch = _torch()
    picture = torch.zeros(1, 3, export.size, export.size)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        torch.onnx.export(_settled(model), (picture,), str(path), **MODES[export.exporter])


def _settled(model: Any) -> Any:
    """Return a model in evaluation mode, its batch statistics random."""
    torch = _torch()
    for module in model.modules():
        if getattr(module, "running_var", None) is not None:
            module.running_mean.data = torch.randn_like(module.running_mean) * 0.1
            module.running_var.data = torch.rand_like(module.running_var) + 0.5
    return model.eval()


def _ultralytics(export: Export, path: Path) -> None:
    _torchvision()
    ultralytics: Any = import_module("ultralytics")
    with contextlib.chdir(path.parent) if hasattr(contextlib, "chdir") else contextlib.nullcontext():
        made = ultralytics.YOLO(f"{export.name}.yaml").export(format="onnx", imgsz=export.size, verbose=False)
        shutil.move(made, path)


def _timm(export: Export, path: Path) -> None:
    _torchvision()
    timm: Any = import_module("timm")
    try:
        model = timm.create_model(export.name, exportable=True, img_size=export.size)
    except TypeError:  # the network takes pictures of any size
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
    _export(_Leading.of(model) if export.family.endswith("maps") else model, export, path)


class _Leading:
    """Wraps a module to return the first value of its output dictionary."""

    @staticmethod
    def of(model: Any) -> Any:
        torch = _torch()

        class Leading(torch.nn.Module):  # type: ignore[misc, name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.model = model

            def forward(self, x: Any) -> Any:
                found = self.model(x)
                if not isinstance(found, dict):
                    return found
                named = [name for name in ("out", "logits", "last_hidden_state") if name in found]
                return found[named[0]] if named else found[next(iter(found))]

        return Leading()


def _transformers(export: Export, path: Path) -> None:
    _torchvision()
    hf: Any = import_module("transformers")
    size = export.size
    small = {"hidden_size": 192, "num_hidden_layers": 4, "num_attention_heads": 3, "intermediate_size": 768}
    makers: dict[str, Callable[[], Any]] = {
        "vit": lambda: hf.ViTForImageClassification(hf.ViTConfig(image_size=size, **small)),
        "deit": lambda: hf.DeiTForImageClassification(hf.DeiTConfig(image_size=size, **small)),
        "dinov2": lambda: hf.Dinov2ForImageClassification(hf.Dinov2Config(image_size=size, patch_size=16, **small)),
        "dinov3_vit": lambda: hf.DINOv3ViTModel(hf.DINOv3ViTConfig(image_size=size, num_register_tokens=4, **small)),
        "dinov3_convnext": lambda: hf.DINOv3ConvNextModel(hf.DINOv3ConvNextConfig(image_size=size)),
        "convnext": lambda: hf.ConvNextForImageClassification(hf.ConvNextConfig()),
        "convnextv2": lambda: hf.ConvNextV2ForImageClassification(hf.ConvNextV2Config(depths=[2, 2, 2, 2])),
        "segformer": lambda: hf.SegformerForSemanticSegmentation(hf.SegformerConfig()),
        "mobilevit": lambda: hf.MobileViTForImageClassification(hf.MobileViTConfig(image_size=size)),
        "mobilevitv2": lambda: hf.MobileViTV2ForImageClassification(hf.MobileViTV2Config(image_size=size)),
        "resnet": lambda: hf.ResNetForImageClassification(hf.ResNetConfig(depths=[2, 2, 2, 2])),
        "regnet": lambda: hf.RegNetForImageClassification(hf.RegNetConfig()),
        "swin": lambda: hf.SwinForImageClassification(hf.SwinConfig(image_size=size, window_size=size // 32)),
        "poolformer": lambda: hf.PoolFormerForImageClassification(hf.PoolFormerConfig()),
    }
    _export(_Leading.of(makers[export.name]()), export, path)


def _scikit_learn(export: Export, path: Path) -> None:
    skl2onnx: Any = import_module("skl2onnx")
    types: Any = import_module("skl2onnx.common.data_types")
    found = dict(import_module("sklearn.utils").all_estimators())
    more = {"probability": True} if export.name == "SVC" else {}
    random = np.random.default_rng(0)
    x = random.standard_normal((120, 12)).astype(np.float32)
    y = (x[:, :3].sum(axis=1) > 0).astype(int) + (x[:, 0] > 1)
    model = found[export.name](**more).fit(x, y)
    options = {id(model): {"zipmap": False}} if hasattr(model, "predict_proba") else None
    made = skl2onnx.to_onnx(model, initial_types=[("x", types.FloatTensorType([None, 12]))], options=options)
    path.write_bytes(made.SerializeToString())


MAKERS: dict[str, Callable[[Export, Path], None]] = {
    "ultralytics": _ultralytics,
    "timm": _timm,
    "torchvision": _of_torchvision,
    "transformers": _transformers,
    "scikit-learn": _scikit_learn,
}

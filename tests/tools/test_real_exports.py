"""Networks exported by their own packages are accepted, and match ONNX Runtime."""

import contextlib
import functools
import io
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from trninfer.inference.boxes import Limits
from trninfer.inference.detections import Detector
from trninfer.inference.pictures import read_picture
from trninfer.models.files import Model
from trninfer.models.golden import run_network
from trninfer.models.importing import import_network
from trninfer.runtime.session import Session
from trninfer.runtime.simulated import SimulatedBackend
from trninfer.tools.real_exports import EXPORTERS, Export, all_exports, load_packages

TOLERANCE = 1e-4  # relative to the largest number, in float32


def test_every_export_has_a_name_of_its_own() -> None:
    keys = [export.key for export in all_exports((96, 160, 224))]
    assert len(keys) == len(set(keys))
    families = {key.partition("/")[0].partition(":")[0] for key in keys}
    assert families == {"ultralytics", "timm", "torchvision", "transformers", "scikit-learn"}
    assert sum(key.startswith("timm") and key.endswith("/96/script") for key in keys) >= 60


@pytest.mark.usefixtures("first_plans")
@pytest.mark.parametrize(
    ("name", "size"),
    [pytest.param("yolov5n", 64, marks=pytest.mark.slow), pytest.param("yolov8n", 64, marks=pytest.mark.by_hand)],
)
def test_detectors_of_ultralytics(name: str, size: int, tmp_path: Path) -> None:
    pytest.importorskip("ultralytics")
    assert_runs(Export("ultralytics", name, size, "own"), tmp_path)


@pytest.mark.slow
@pytest.mark.usefixtures("first_plans")
@pytest.mark.parametrize(("name", "exporter"), [*zip(["resnet18", "starnet_s1"], EXPORTERS, strict=True)])
def test_networks_of_timm(name: str, exporter: str, tmp_path: Path) -> None:
    export = Export("timm: residual", name, 64, exporter)
    load_packages([export])  # before anything else imports torchvision
    pytest.importorskip("timm")
    pytest.importorskip("onnxscript")
    assert_runs(export, tmp_path)


@pytest.mark.slow
@pytest.mark.usefixtures("first_plans")
def test_estimators_of_scikit_learn(tmp_path: Path) -> None:
    pytest.importorskip("skl2onnx")
    for name in ("LogisticRegression", "MLPClassifier", "PCA"):
        assert_runs(Export("scikit-learn", name, 0, "own"), tmp_path)


def assert_runs(export: Export, folder: Path) -> None:
    """Check that the network is imported and runs in one launch, and that batches of 1 and 3 match the golden model,
    which has been compared with ONNX Runtime."""
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


def export_lively(name: str, size: int, path: Path, **options: Any) -> None:
    """Export a YOLO network with random weights whose scores and boxes vary with the position, using its own
    exporter."""
    torch = pytest.importorskip("torch")
    os.environ.setdefault("YOLO_OFFLINE", "1")
    load_packages([Export("ultralytics", name, size, "own")])
    yolo = pytest.importorskip("ultralytics").YOLO(f"{name}.yaml")
    torch.manual_seed(1)
    network = yolo.model.requires_grad_(False).train()
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = None
            module.reset_running_stats()
    network(torch.nn.functional.interpolate(torch.rand(8, 3, 20, 20), (160, 160), mode="bilinear"))
    head = network.eval().model[-1]
    for start in ("", "one2one_") if hasattr(head, "one2one_cv3") else ("",):
        for scores, boxes in zip(getattr(head, f"{start}cv3"), getattr(head, f"{start}cv2")):
            scores[-1].weight.normal_(0, 0.12)
            scores[-1].bias.normal_(-3, 0.5)
            boxes[-1].weight.normal_(0, 0.1)
    with contextlib.redirect_stdout(io.StringIO()):
        shutil.move(yolo.export(format="onnx", imgsz=size, verbose=False, **options), path)


@functools.cache
def define_suppression() -> None:
    """Define torchvision's operator for suppression, which is not built for every torch version, so that it can be
    exported."""
    torch, torchvision = pytest.importorskip("torch"), pytest.importorskip("torchvision")
    if torchvision.extension._has_ops():
        return
    library = torch.library.Library("torchvision", "FRAGMENT")
    library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    library.impl("nms", pytest.importorskip("ultralytics.utils.nms").TorchNMS.nms, "CPU")
    define_suppression.library = library  # type: ignore[attr-defined]  # its end would remove the operator
    torchvision.ops.boxes._assert_has_ops = lambda: None


def find_as_exporter(path: Path, task: str, pictures: list[Path]) -> Iterator[Any]:
    """Yield the results of ultralytics' own `predict` for each picture, computed by ONNX Runtime on the processor."""
    from ultralytics import YOLO

    yolo = YOLO(path, task=task)
    for picture in pictures:
        yield yolo.predict(picture, conf=0.25, iou=0.7, imgsz=96, verbose=False, retina_masks=True)[0]


def at_corners(found: Any) -> np.ndarray:
    """Return the upright bounding boxes of oriented boxes in the picture, with confidences and classes."""
    corners = np.clip(found.xyxy.numpy(), 0, np.tile(found.orig_shape[::-1], 2))
    return np.concatenate([corners, found.conf.numpy()[:, None], found.cls.numpy()[:, None]], axis=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("yolov8n", {}),
        ("yolov8n", {"nms": True}),  # suppresses overlaps itself
        pytest.param("yolov8n", {"nms": True, "agnostic_nms": True}, marks=pytest.mark.by_hand),  # among classes, too
        pytest.param("yolov8n-seg", {"nms": True, "agnostic_nms": True}, marks=pytest.mark.by_hand),
        pytest.param("yolov8n-obb", {"nms": True, "agnostic_nms": True}, marks=pytest.mark.by_hand),
        pytest.param("yolo26n", {"nms": False, "agnostic_nms": True}, marks=pytest.mark.by_hand),
        pytest.param("yolov8n-seg", {}, marks=pytest.mark.by_hand),  # as for 11
        ("yolov8n-pose", {}),
        ("yolo11n-seg", {}),
        pytest.param("yolo26n-seg", {}, marks=pytest.mark.by_hand),
        ("yolo26n-seg", {"nms": False}),  # end to end
        ("yolo26n-pose", {"nms": False}),
        ("yolov8n-obb", {}),
        ("yolo26n-obb", {"nms": False}),
    ],
    ids=lambda value: (
        value if isinstance(value, str) else "_".join(f"{name}_{choice}" for name, choice in value.items())
    ),
)
def test_boxes_are_those_of_ultralytics(
    name: str, options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where its exporter writes
    task = {"seg": "segment", "pose": "pose", "obb": "obb"}.get(name.partition("-")[2], "detect")
    pytest.importorskip("ultralytics")
    random = np.random.default_rng(0)
    pictures = []
    for number, (width, height) in enumerate([(320, 240), (100, 170), (61, 64), (500, 90)]):
        side = max(width, height) / 12  # the size of the spots, which are as smooth as the training pictures
        coarse = random.integers(0, 256, (max(2, round(height / side)), max(2, round(width / side)), 3), np.uint8)
        pictures.append(tmp_path / f"{number}.png")
        Image.fromarray(coarse).resize((width, height), Image.Resampling.BILINEAR).save(pictures[-1])
    path = tmp_path / "net.onnx"
    load_packages([Export("ultralytics", name, 96, "own")])
    define_suppression()
    export_lively(name, 96, path, **options)
    imported = import_network(path)
    network = imported.network
    sizes: dict[str | int, tuple[int, int]] = {}
    found_any = shared = either = 0
    for picture, theirs in zip(pictures, find_as_exporter(path, task, pictures)):
        image = read_picture(picture, network.input, lambda size: sizes.__setitem__("picture", size))
        outputs = run_network(network, imported.tensors, image[None]).outputs
        numbers = np.concatenate([output.scores for output in outputs], axis=1)
        (ours,) = Detector(Limits(), sizes)(["picture"], network, np.empty(1), numbers)
        found = np.array([[b.x1, b.y1, b.x2, b.y2, b.confidence, b.class_index] for b in ours.boxes]).reshape(-1, 6)
        expected = theirs.boxes.data.numpy() if task != "obb" else at_corners(theirs.obb)
        assert found.shape == expected.shape
        if not len(found):
            continue
        apart = np.abs(found[None] - expected[:, None]) / (1, 1, 1, 1, 0.01, 0.5)
        matching = apart.max(axis=2).argmin(axis=1)  # boxes with nearly the same confidence may be in a different order
        assert apart.max(axis=2).min(axis=1).max(initial=0) < 1
        for place, box in enumerate(ours.boxes[match] for match in matching):
            if task == "segment":
                mask, right = box.mask.to_array(), theirs.masks.data[place].numpy() > 0
                shared, either = shared + (mask & right).sum(), either + (mask | right).sum()
            if task == "obb":
                assert np.abs(np.array(box.outline) - theirs.obb.xyxyxyxy[place].numpy()).max() < 1
            if task == "pose":
                points = theirs.keypoints.data[place].numpy()
                assert np.abs(np.array(box.keypoints) - points).max() < 1
        found_any += len(found)
    assert found_any
    assert shared >= 0.99 * either

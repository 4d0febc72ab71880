"""The heads of torchvision's SSD and RetinaNet: boxes are decoded as by torchvision itself."""

from __future__ import annotations

import contextlib
import io
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trninfer.inference.boxes import Limits, _corners, find_boxes
from trninfer.models.golden import run_network
from trninfer.models.importing import import_network
from trninfer.tools.real_exports import Export, _settled, load_packages


def heads_of(name: str, size: int, path: Path) -> tuple[Any, Any]:
    """Export a detector's backbone and head, and return the detector and the exported module."""
    torch = pytest.importorskip("torch")
    load_packages([Export("torchvision: detectors", name, size, "script")])
    models = pytest.importorskip("torchvision").models
    torch.manual_seed(0)
    detector = _settled(models.get_model(name, weights=None, weights_backbone=None))

    class Heads(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.backbone, self.head = detector.backbone, detector.head

        def forward(self, x: Any) -> Any:
            found = self.head(list(self.backbone(x).values()))
            return found["bbox_regression"], found["cls_logits"]

    heads = Heads().eval()
    with contextlib.redirect_stdout(io.StringIO()):
        torch.onnx.export(
            heads, (torch.zeros(1, 3, size, size),), str(path), dynamo=False, opset_version=17,
            output_names=["bbox_regression", "cls_logits"],
        )  # fmt: skip
    return detector, heads


@pytest.mark.by_hand
@pytest.mark.parametrize(
    ("name", "size", "kind"),
    [
        ("ssd300_vgg16", 300, "ssd300"),
        ("ssdlite320_mobilenet_v3_large", 320, "ssdlite320"),
        ("retinanet_resnet50_fpn", 97, "retinanet"),
    ],
)
def test_boxes_are_decoded_as_by_torchvision(name: str, size: int, kind: str, tmp_path: Path) -> None:
    detector, heads = heads_of(name, size, tmp_path / "heads.onnx")
    imported = import_network(tmp_path / "heads.onnx")
    head = imported.network.output.boxes
    assert head is not None and any(f"read as boxes of {kind}" in note for note in imported.notes)
    assert (head.classes, head.scores) == ((90, "softmax") if head.background else (91, "logits"))
    torch, lists = import_module("torch"), import_module("torchvision.models.detection.image_list")
    x = torch.rand(1, 3, size, size)
    with torch.no_grad():
        offsets, logits = heads(x)
        maps = list(detector.backbone(x).values())
        anchors = detector.anchor_generator(lists.ImageList(x, [(size, size)]), maps)[0]
        boxes = detector.box_coder.decode_single(offsets[0], anchors).numpy()
        scores = (logits[0].softmax(1)[:, 1:] if head.background else logits[0].sigmoid()).numpy()
    rows, others = (output.scores[0] for output in run_network(imported.network, imported.tensors, x.numpy()).outputs)
    rows, others = rows.reshape(-1, 4), {"cls_logits": others.reshape(len(boxes), -1)}
    decoded = _corners(head, (size, size), rows, np.arange(len(rows)))
    assert np.isfinite(boxes).all() and decoded == pytest.approx(boxes, rel=1e-3, abs=0.02)
    found = find_boxes(head, (size, size), rows, others, Limits(confidence=0.0, iou=1.0, max_detections=30_000))
    best = scores.max(axis=1)
    assert found.confidences == pytest.approx(-np.sort(-best), abs=1e-4) and len(found.classes) == len(boxes)

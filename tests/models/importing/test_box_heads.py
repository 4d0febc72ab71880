"""Recognising boxes from their metadata and shapes."""

import numpy as np
import pytest
from onnx_chain import Chain, checked
from trninfer.models.errors import ModelError
from trninfer.models.importing.box_heads import find_head
from trninfer.models.importing.box_spec import BOX_KINDS, parse_boxes
from trninfer.models.importing.builder import BuiltOutput
from trninfer.models.outputs import Output


def built(*outputs):
    return [BuiltOutput(name, name, shape, Output("values")) for name, shape in outputs]


def kind_and_head(outputs, size=(640, 640), spec=None, labels=None):
    found = find_head(built(*outputs), size, spec and parse_boxes(spec), labels)
    return found and (found.spec.name, found.outputs[0].output.boxes, found.outputs[0].name)


@pytest.mark.parametrize(
    ("shape", "kind", "classes"),
    [
        ((84, 8400), "yolov8", 80),
        ((5, 8400), "yolov8", 1),
        ((25200, 85), "yolov5", 80),
        ((25200, 6), "yolov5", 1),
        ((8400, 85), "yolox", 80),
        ((300, 6), "yolo26", 80),
    ],
)
def test_yolo_is_known_by_its_shape(shape, kind, classes):
    name, head, _ = kind_and_head([("out", shape)])
    assert (name, head.classes) == (kind, classes)
    found = find_head(built(("out", shape)), (640, 640), None, None)
    assert "--boxes" in found.note and kind in found.note


def test_other_sizes_have_other_grids():
    cells = 40 * 60 + 20 * 30 + 10 * 15
    assert kind_and_head([("out", (7, cells))], (320, 480))[1].classes == 3
    assert kind_and_head([("out", (7, cells))], (640, 640)) is None
    with_64 = cells + 5 * 8
    assert kind_and_head([("out", (3 * with_64, 8))], (320, 480))[0] == "yolov5"


@pytest.mark.parametrize("anchors", [1, 3])
def test_boxes_of_a_grid_beside_their_scores_are_those_of_yolo(anchors):
    """As YOLOv7 with --include-nms and YOLO-NAS: fitted into the picture, without a score for the background."""
    rows = anchors * 8400
    found = find_head(built(("classes", (rows, 4)), ("boxes", (rows, 80))), (640, 640), None, None)
    head = found.outputs[0].output.boxes
    assert (found.spec.pictures.resize_mode, head.classes, head.background, head.unit) == ("pad", 80, False, "pixels")
    assert kind_and_head([("boxes", (rows + 1, 4)), ("scores", (rows + 1, 80))])[0] == "ssd"


def test_pictures_smaller_than_a_cell_have_no_grids():
    assert kind_and_head([("out", (4, 6))], size=(4, 6)) is None


def test_a_detector_of_grey_pictures_reads_no_colours(tmp_path):
    """YOLOX reads blue, green, red; RetinaFace subtracts the mean of each colour."""
    chain = Chain(1, 32, 32)
    chain.add("Flatten")
    chain.gemm(1024, 21 * 7)
    chain.add("Sigmoid")
    chain.add("Reshape", chain.constant([-1, 21, 7]))
    chain.add("Mul", chain.constant(np.array([1.0, 1, -1, -1, 1, 1, 1])))  # the logarithms of sizes are negative
    imported = checked(chain.model(), tmp_path)
    assert imported.network.output.kind == "boxes" and imported.network.input.channel_order == "rgb"
    grey = BOX_KINDS["retinaface"].pictures.for_channels(1)
    assert (grey.channel_order, len(grey.mean)) == (None, 1)


def test_masks_have_their_prototypes_in_another_output():
    _, head, _ = kind_and_head([("out", (116, 8400)), ("maps", (32, 160, 160))])
    assert (head.classes, head.masks, head.prototypes) == (80, 32, "maps")


@pytest.mark.parametrize(
    ("rows", "scores", "more", "says"),
    [
        (84, 80, None, {"classes": 80, "masks": 0}),
        (116, 80, (32, 160, 160), {"classes": 80, "masks": 32, "prototypes": "more"}),
        (56, 1, (51, 8400), {"classes": 1, "keypoints": 17, "keypoint_size": 3}),
        (20, 15, (1, 8400), {"classes": 15, "angle": True}),
    ],
)
@pytest.mark.parametrize("distances", [4, 64])
def test_what_a_table_is_made_of_beside_it(rows: int, scores: int, more, says: dict, distances: int) -> None:
    """As torch.onnx.export writes Ultralytics' networks: the outputs of the training forward pass are exported too."""
    parts = [("distances", (distances, 8400)), ("scores", (scores, 8400)), ("level", (64, 80, 80))]
    outputs = [("out", (rows, 8400)), *parts, *([("more", more)] if more else [])]
    found = find_head(built(*outputs), (640, 640), None, None)
    assert found is not None and found.spec.name == "yolov8"
    head = vars(found.outputs[0].output.boxes)
    assert {key: head[key] for key in says} == says
    assert [each.name for each in found.outputs] == ["out", *(["more"] if "prototypes" in says else [])]


def test_tables_that_do_not_fit_together_are_no_boxes() -> None:
    assert find_head(built(("out", (86, 8400)), ("a", (64, 8400)), ("b", (80, 8400))), (640, 640), None, None) is None
    assert find_head(built(("out", (84, 8400)), ("a", (63, 8400)), ("b", (80, 8400))), (640, 640), None, None) is None


def test_known_labels_say_whether_there_is_objectness():
    assert kind_and_head([("out", (8400, 85))], labels=81)[0] == "yolov8"
    assert kind_and_head([("out", (8400, 85))], labels=80)[0] == "yolox"


@pytest.mark.parametrize(("labels", "kind"), [(None, "detr"), (5, "detr"), (6, "rtdetr")])
def test_detr_is_known_by_the_names_of_its_outputs(labels, kind):
    name, head, leading = kind_and_head([("logits", (100, 6)), ("pred_boxes", (100, 4))], labels=labels)
    assert (name, head.scores_from, leading) == (kind, "logits", "pred_boxes")
    assert (head.classes, head.background_last, head.suppress) == (labels or 5, kind == "detr", False)


def test_ssd_and_retinaface():
    name, head, leading = kind_and_head([("scores", (4420, 2)), ("boxes", (4420, 4))], (240, 320))
    assert (name, head.classes, head.scores_from, leading) == ("ssd", 1, "scores", "boxes")
    outputs = [("loc", (16800, 4)), ("conf", (16800, 2)), ("landms", (16800, 10))]
    name, head, leading = kind_and_head(outputs)
    assert (name, head.scores_from, head.keypoints_from, leading) == ("retinaface", "conf", "landms", "loc")


@pytest.mark.parametrize("shape", [(1000,), (84, 8401), (300, 7), (20, 6), (3, 64, 64)])
def test_other_outputs_are_no_boxes(shape):
    assert kind_and_head([("out", shape)]) is None


def test_the_layout_that_fits_is_taken():
    _, head, _ = kind_and_head([("out", (50, 9))], (64, 64), "yolov8,classes=5")
    assert head.layout == "rows"
    _, head, _ = kind_and_head([("out", (9, 50))], (64, 64), "yolov5,classes=4")
    assert head.layout == "columns"


def test_what_is_said_must_fit():
    assert kind_and_head([("out", (9, 50))], (64, 64), "yolov8,keypoints=1,keypoint_size=2")[1].classes == 3
    with pytest.raises(ModelError, match=r"\[numbers, boxes\] with 6 numbers"):
        kind_and_head([("out", (9, 50))], (64, 64), "yolov8,classes=2")
    with pytest.raises(ModelError, match=r"no output can be read as boxes; the outputs are out \[10\]"):
        kind_and_head([("out", (10,))], (64, 64), "yolov8")


def test_heads_of_torchvision_are_recognised_by_their_names_and_priors():
    """Other networks, such as SSD300 trained on VOC and EfficientDet, have as many, but different priors."""
    for kind, size, count, classes in (
        ("ssd300", (300, 300), 8732, 20),
        ("ssdlite320", (320, 320), 3234, 20),
        ("retinanet", (97, 128), 2565, 21),
    ):
        heads = built(("bbox_regression", (count, 4)), ("cls_logits", (count, 21)))
        found = find_head(heads, size, None, None)
        assert found is not None and found.spec.name == kind
        head = found.outputs[0].output.boxes
        assert head is not None and (head.classes, head.scores_from) == (classes, "cls_logits")
        found = find_head(built(("loc", (count, 4)), ("conf", (count, 21))), size, None, None)
        assert found is None or found.spec.name == "ssd"
        found = find_head(heads, (size[0] + 8, size[1]), None, None)
        assert found is None or found.spec.name == "ssd"

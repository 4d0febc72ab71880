"""The metadata written by Ultralytics' exporter (engine/exporter.py, `metadata`, version 8.4)."""

import dataclasses

from trninfer.models.importing.ultralytics_file import read_ultralytics

METADATA = {
    "author": "Ultralytics",
    "task": "detect",
    "head": "Detect",
    "imgsz": "[96, 128]",
    "names": "{0: 'cat', 1: \"dog's\"}",
    "channels": "3",
    "end2end": "False",
    "stride": "32",
}


def read(**changes):
    return read_ultralytics({**METADATA, **changes})


def test_a_detector():
    found = read()
    assert (found.names, found.size, found.is_end_to_end) == (("cat", "dog's"), (96, 128), False)
    assert (found.boxes.fields["classes"], found.boxes.fields["layout"]) == (2, "columns")
    pictures = found.pictures
    assert (pictures.resize_mode, pictures.pad_colour, pictures.filter) == ("pad", 114, "linear")
    assert (pictures.input_range, pictures.usual_size, pictures.pictures) == ((0.0, 1.0), (96, 128), "photo")
    assert pictures.is_beside


def test_poses_and_end_to_end():
    pose = read(task="pose", kpt_shape="[17, 3]").boxes
    assert (pose.fields["keypoints"], pose.fields["keypoint_size"]) == (17, 3)
    assert read(end2end="True").boxes.fields["ended"]
    rows = dataclasses.replace(read(end2end="True"), has_all_rows=True).boxes.head()
    assert (rows.layout, rows.code, rows.ended, rows.suppress) == ("rows", "corners", False, False)
    assert not read(end2end="True", head="RTDETRDecoder").boxes.fields["suppress"]


def test_boxes_that_the_graph_selects_by_their_overlaps():
    nms = read(args="{'batch': 1, 'nms': True}")
    assert nms.selects_boxes and not nms.is_end_to_end
    rows = dataclasses.replace(nms, has_all_rows=True).boxes.head()
    assert (rows.layout, rows.code, rows.suppress, rows.ended) == ("rows", "corners", True, False)
    assert nms.boxes.fields["ended"]  # if the rows before suppression are not found
    for args in ("{'nms': None}", "{'nms': 'yes'}", "[1]", "((("):
        assert not read(args=args).selects_boxes
    assert not read(end2end="True", head="RTDETRDecoder").selects_boxes


def test_classes_are_cut_out_of_a_picture_and_have_no_boxes():
    found = read(task="classify", imgsz="[224, 224]")
    assert found.boxes is None
    assert (found.pictures.resize, found.pictures.resize_mode, found.pictures.filter) == (224, "crop", "bilinear")
    assert read(task="classify", imgsz="[224, 320]").pictures.resize_mode == "squash"


def test_oriented_boxes():
    head = read(task="obb").boxes.head()
    assert (head.code, head.angle, head.layout, head.suppress, head.columns.angle) == (
        "centre", True, "columns", True, slice(6, 7),
    )  # fmt: skip
    ended = read(task="obb", end2end="True")
    assert ended.boxes.head().ended and ended.boxes.head().columns.angle == slice(6, 7)
    rows = dataclasses.replace(ended, has_all_rows=True).boxes.head()
    assert (rows.code, rows.layout, rows.suppress) == ("centre", "rows", False)


def test_other_files_and_odd_texts():
    assert read(author="somebody") is None
    assert read(names="[[[") is None
    assert read(names="{0: 'a', 2: 'b'}") is None
    odd = read(imgsz="(((", kpt_shape="[17]", channels="many", end2end="maybe")
    assert (odd.size, odd.keypoint_shape, odd.channels, odd.is_end_to_end) == (None, None, 3, False)
    assert read(imgsz="320").size == (320, 320)

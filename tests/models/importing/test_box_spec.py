"""Tests of `--boxes SPEC`."""

import pytest
from trninfer.models.boxes import BoxHead
from trninfer.models.errors import ModelError
from trninfer.models.importing.box_spec import BOX_KINDS, parse_boxes


def test_a_kind_and_what_is_otherwise():
    spec = parse_boxes("yolov5, classes=3,scores=logits,objectness=no")
    assert spec.head() == BoxHead(3, "rows", scores="logits")
    assert spec.pictures.pad_colour == 114


@pytest.mark.parametrize("name", BOX_KINDS)
def test_each_kind_is_a_head(name):
    assert parse_boxes(name).head(**({} if name == "retinaface" else {"classes": 2})).classes in (1, 2)


def test_fields_alone():
    spec = parse_boxes("layout=rows,code=priors,classes=1,strides=8/16,priors=4/4/9.5/9,prior_counts=1/1")
    head = spec.head()
    assert (head.strides, head.priors, head.prior_counts) == ((8, 16), (4.0, 4.0, 9.5, 9.0), (1, 1))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("yolov99", "known: yolov8, yolov5"),
        ("", "known: yolov8"),
        ("yolov8,colour=red", "unknown field 'colour'"),
        ("yolov8,classes=many", "it must be a whole number"),
        ("yolov8,suppress=perhaps", "it must be yes or no"),
        ("yolox,strides=8-16", "it must be numbers separated by /"),
    ],
)
def test_what_cannot_be_read_is_named(text, message):
    with pytest.raises(ModelError) as error:
        parse_boxes(text)
    assert message in str(error.value)

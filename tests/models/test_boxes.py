"""Heads of detectors: valid and invalid descriptions."""

import numpy as np
import pytest
from trninfer.models.boxes import BoxHead
from trninfer.models.errors import ModelError
from trninfer.models.importing.box_spec import BOX_KINDS


def test_a_row_has_its_numbers_in_one_order():
    head = BoxHead(3, "rows", objectness=True, masks=32, prototypes="p", keypoints=2, keypoint_size=3)
    box, objectness, scores, masks, keypoints, _, width = head.columns
    places = [(part.start, part.stop) for part in (box, objectness, scores, masks, keypoints)]
    assert places == [(0, 4), (4, 5), (5, 8), (8, 40), (40, 46)]
    assert width == 46
    turned = BoxHead(3, "rows", angle=True).columns
    assert (turned.scores, turned.angle, turned.width) == (slice(4, 7), slice(7, 8), 8)
    ended = BoxHead(3, "rows", "corners", ended=True, keypoints=2, keypoint_size=2)
    assert (ended.columns.scores, ended.columns.width) == (slice(4, 6), 10)
    apart = BoxHead(2, "rows", "corners", background=True, scores_from="scores")
    assert (apart.columns.width, apart.score_count, apart.other_outputs) == (4, 3, ("scores",))


def test_grids_count_their_boxes():
    assert BoxHead(1).box_count(640, 640) is None
    assert BoxHead(1, "rows", "cells", strides=(8, 16, 32)).box_count(640, 640) == 8400
    head = BoxHead(
        1, "rows", "priors", strides=(32, 64), priors=(16.0, 16.0, 24.0, 8.0, 64.0, 64.0), prior_counts=(2, 1)
    )
    assert head.box_count(100, 70) == 2 * 4 * 3 + 2 * 2
    origins, sizes = head.grid(100, 70)
    assert origins[:3].tolist() == [[16, 16], [16, 16], [48, 16]]
    assert sizes[:3].tolist() == [[16, 16], [24, 8], [16, 16]]
    assert (origins[-1].tolist(), sizes[-1].tolist()) == ([96, 96], [64, 64])


def test_priors_of_torchvision():
    """Numbers printed by the anchor generators of torchvision 0.29."""
    origins, sizes = BoxHead(1, **BOX_KINDS["ssd300"].fields).grid(300, 300)
    first = np.concatenate([origins - sizes / 2, origins + sizes / 2], axis=1)[:4]
    assert len(origins) == 8732 and first == pytest.approx(
        np.array([[-6.5, -6.5, 14.5, 14.5], [-11.3704, -11.3704, 19.3704, 19.3704],
                  [-10.8492, -3.4246, 18.8492, 11.4246], [-3.4246, -10.8492, 11.4246, 18.8492]]), abs=1e-3,
    )  # fmt: skip
    assert sizes.max() == 300  # clipped to the image
    origins, sizes = BoxHead(1, **BOX_KINDS["ssdlite320"].fields).grid(320, 320)
    first = np.concatenate([origins - sizes / 2, origins + sizes / 2], axis=1)[:3]
    assert len(origins) == 3234 and first == pytest.approx(
        np.array([[-24, -24, 40, 40], [-34.332, -34.332, 50.332, 50.332], [-37.2548, -14.6274, 53.2548, 30.6274]]),
        abs=1e-3,
    )
    assert origins[6 * 525].tolist() == pytest.approx([320 / 6] * 2)  # three cells
    origins, sizes = BoxHead(1, **BOX_KINDS["retinanet"].fields).grid(97, 97)
    assert sizes[:9].tolist() == [
        [46, 22], [56, 28], [70, 36], [32, 32], [40, 40], [50, 50], [22, 46], [28, 56], [36, 70]
    ]  # fmt: skip
    assert origins[[0, 9, 9 * 13]].tolist() == [[0, 0], [7, 0], [0, 7]]  # 97 pixels for 13 cells


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"classes": 0}, "classes is 0"),
        ({"layout": "squares"}, "layout is 'squares'"),
        ({"masks": 32}, "32 mask coefficients require an output of prototypes, but prototypes is ''"),
        ({"keypoints": 2, "keypoint_size": 4}, "keypoint_size is 4; 2 to 3"),
        ({"code": "cells"}, "0 strides"),
        ({"strides": (8,)}, "1 strides"),
        ({"code": "priors", "strides": (8,)}, "prior_counts is []"),
        ({"code": "priors", "strides": (8,), "prior_counts": (1,), "priors": (8.0,)}, "priors contains 1 numbers"),
        ({"objectness": True, "background": True}, "objectness requires"),
        ({"ended": True}, "rows that are already selected"),
        ({"prior_cells": "corners"}, "prior_cells=corners requires the code priors"),
        ({"variances": (0.1,)}, "variances must be two positive numbers"),
    ],
)
def test_what_does_not_fit_is_named(fields, message):
    with pytest.raises(ModelError) as error:
        BoxHead(**{"classes": 1, **fields})
    assert message in str(error.value)


def test_an_output_must_have_such_rows():
    BoxHead(2).check_shape((6, 100))
    BoxHead(2, "rows").check_shape((100, 6))
    with pytest.raises(
        ModelError, match=r"the output has shape \[100, 6\]; expected \[numbers, boxes\] with 6 numbers"
    ):
        BoxHead(2).check_shape((100, 6))

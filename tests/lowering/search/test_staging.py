"""Stages: where they may end, and the number of images that they process."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lowered import decide, graph_of, number_of, pipeline_of
from random_networks import conv, ending_in_dense, model_of
from trninfer.lowering.decisions import Decisions
from trninfer.lowering.emission.schedule import Region, Schedule
from trninfer.lowering.search.staging import SHARE, Staging, candidates, most
from trninfer.models.layers import Pool

MODEL = model_of(
    ending_in_dense(
        (3, 64, 64), [conv("a", 3, 64, 3), Pool("p", "max", (4, 4), (4, 4)), conv("b", 64, 64, 3), conv("c", 64, 8, 1)]
    )
)


@given(st.integers(1, 300), st.integers(0, 300))
def test_the_most_that_fit_are_found(images: int, limit: int) -> None:
    tried: list[int] = []
    assert most(images, lambda count: tried.append(count) is None and count <= limit) == max(1, min(images, limit))
    assert len(tried) <= 11


def test_a_stage_ends_where_a_smaller_value_fits_for_the_whole_batch() -> None:
    graph = graph_of(MODEL)
    pooled = 16 * 16 * 4  # bytes per partition for an image
    assert number_of(graph, "p") + 1 in candidates(graph, 4, 4 * pooled * SHARE)
    assert number_of(graph, "p") + 1 not in candidates(graph, 5, 4 * pooled * SHARE)
    assert number_of(graph, "a") + 1 not in candidates(graph, 4, 4 * pooled * SHARE)


@pytest.mark.parametrize("pictures", [3, 32])
def test_stages_fit_and_cover_all_nodes(pictures: int) -> None:
    pipeline = pipeline_of(MODEL)
    graph = pipeline.launch(Decisions(), pictures).graph
    staging = Staging(pipeline, pipeline.launch(Decisions(), pictures), pictures)
    found = [staging.whole(Decisions()), *staging.split(Decisions())]
    assert len(found) > (pictures > 3)  # a small batch is one stage
    for decisions in found:
        at_once = [stage.at_once for stage in Schedule.of(decisions, graph).stages]
        assert staging.fits(decisions) and at_once == sorted(at_once)
    (whole,) = Schedule.of(found[0], graph).stages
    if whole.at_once < pictures:
        assert not staging.fits(decide(at_once=whole.at_once + 1))


def test_no_stage_ends_within_a_region() -> None:
    """The bands of later nodes would read rows that earlier bands have overwritten."""
    pipeline = pipeline_of(MODEL)
    graph = pipeline.launch(Decisions(), 32).graph
    region = Region(number_of(graph, "a"), number_of(graph, "b") + 1, 2)
    whole = decide(graph, regions=[region])
    ends = []
    for decisions in (Decisions(), whole):
        staging = Staging(pipeline, pipeline.launch(decisions, 32), 32)
        found = [Schedule.of(each, graph) for each in staging.split(decisions)]
        ends.append({stage.end for schedule in found for stage in schedule.stages[:-1]})
    inner = set(range(region.first + 1, region.end))
    assert ends[0] & inner and not ends[1] & inner

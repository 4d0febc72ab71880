"""The stage and region of a node."""

from trninfer.lowering.emission.schedule import Region, Schedule, StageOf

SCHEDULE = Schedule((StageOf(2, 8), StageOf(3, 1), StageOf(7, 4)), (Region(3, 5, 4), Region(6, 7, 2)))


def test_each_node_is_in_one_stage() -> None:
    assert [SCHEDULE.stage_of(number) for number in range(7)] == [0, 0, 1, 2, 2, 2, 2]


def test_nodes_of_a_region_run_in_bands() -> None:
    first, second = SCHEDULE.regions
    assert [SCHEDULE.region_of(number) for number in range(7)] == [None, None, None, first, first, None, second]

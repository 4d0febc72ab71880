"""When the data of a DMA could have started to move, and when it did, on each engine and on all together."""

import pytest
from trninfer.simulator.timing import dependencies, scheduled
from trninfer.simulator.timing.dma import ENGINES
from trninfer.simulator.timing.scheduled import DESCRIPTORS, KINDS, NOTHING, OTHER_CORE, PIPE, Phases

PHASES = Phases(
    first_byte=1000.0,
    latency=700.0,
    skew=15.0,
    place=2,
    begins=[1000.0, 1200.0, 1030.0],
    pipe_begin=1100.0,
    last=0,
    bound=3,
)


@pytest.mark.parametrize(("engine", "could", "did"), [(2, 1000, 1000), (3, 1015, 1200), (4, 1030, 1030)])
def test_each_further_engine_begins_later(engine: int, could: float, did: float) -> None:
    assert (PHASES.could_begin(engine), PHASES.begun(engine)) == (could, did)


def test_the_engines_together_begin_with_the_first_byte() -> None:
    assert (PHASES.could_begin(PIPE), PHASES.begun(PIPE)) == (1000, 1100)
    assert PHASES.could_begin(DESCRIPTORS) == 1000


def test_causes_have_numbers_of_their_own() -> None:
    """An instruction and its dependency are packed into one number, as are an engine and the bottleneck of a DMA."""
    names = ("ENGINE", "BUFFER", "PORT", "TABLE", "OTHER_CORE")
    kinds = [getattr(dependencies, name) for name in ("RAW", "WAR", "WAW", "ORDER")]
    kinds += [getattr(scheduled, name) for name in names]
    assert len(set(kinds)) == len(kinds) and all(0 <= kind < KINDS for kind in kinds)
    assert NOTHING < 0  # not the number of an instruction
    assert KINDS & (KINDS - 1) == 0  # a power of two, so that the kind is in the lowest bits
    assert divmod(NOTHING * KINDS + OTHER_CORE, KINDS) == (NOTHING, OTHER_CORE)
    assert len({*range(ENGINES), PIPE, DESCRIPTORS}) == ENGINES + 2

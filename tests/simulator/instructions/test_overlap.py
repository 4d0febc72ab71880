"""Instructions that overwrite elements before reading them, compared with an engine that moves one element at a
time."""

import warnings

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nki_tensors import hbm, new, on
from trninfer import simulator
from trninfer.simulator.machine.errors import UndefinedOnChipWarning

TOLD = "overlaps .* and overwrites elements of it before they are read"


def tile_of(columns):
    t = new((4, columns))
    nisa.memset(t, 1.0)
    return t


@pytest.mark.parametrize(
    "instruction",
    [
        lambda t: nisa.tensor_copy(t[:, 1:9], t[:, 0:8]),
        lambda t: nisa.tensor_tensor(t[:, 1:9], t[:, 8:16], t[:, 0:8], nl.add),
        lambda t: nisa.tensor_copy(t[:, 0:8].reshape((4, 2, 4)), t[:, 0:8].reshape((4, 4, 2)).permute((0, 2, 1))),
        lambda t: nisa.activation(t[:, 4:8], nl.relu, t[:, 0:8:2]),
        lambda t: nisa.tensor_reduce(t[:, 4:8], nl.add, t[:, 0:8].reshape((4, 4, 2)), axis=2),
        lambda t: nisa.dma_copy(t[:, 0:8], t[:, 1:9]),  # queues move pieces in arbitrary order
    ],
)
def test_overwritten_elements_are_reported_once_per_line(instruction):
    with on():
        t = tile_of(16)
        with pytest.warns(UndefinedOnChipWarning, match=TOLD) as told:
            for _ in range(3):
                instruction(t)
        assert len(told) == 1 and told[0].filename == __file__


@pytest.mark.parametrize(
    "instruction",
    [
        lambda t: nisa.tensor_scalar(t, t, nl.add, 1.0),
        lambda t: nisa.tensor_scalar(t.reshape((4, 4, 4)), t, nl.add, 1.0),
        lambda t: nisa.tensor_copy(t[:, 0:8], t[:, 1:9]),  # reads run ahead of writes
        lambda t: nisa.tensor_copy(t[:, 0:8:2], t[:, 1:8:2]),
        lambda t: nisa.tensor_reduce(t[:, 0:1], nl.add, t, axis=1),
        lambda t: nisa.tensor_scalar(t, t, nl.add, t[:, 3:4]),  # a column operand is read first
        lambda t: nisa.dma_copy(t[:, 0:8], t[:, 8:16]),
    ],
)
def test_elements_read_before_the_write_are_not_reported(instruction, recwarn):
    with on():
        instruction(tile_of(16))
    assert not recwarn.list


@given(
    starts=st.tuples(st.integers(0, 6), st.integers(0, 6)),
    steps=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    count=st.integers(1, 6),
)
def test_the_rule_is_what_a_stream_would_compute(starts, steps, count):
    """A warning appears exactly if moving element by element differs from moving all elements at once."""
    (to, start), (stride, step) = starts, steps
    values = np.arange(25.0, dtype=np.float32)
    written, read = slice(to, to + stride * count, stride), slice(start, start + step * count, step)
    at_once, streamed = values.copy(), values.copy()
    at_once[written] = values[read]
    for place, source in zip(range(25)[written], range(25)[read]):
        streamed[place] = streamed[source]
    with on(functional=False), warnings.catch_warnings(record=True) as told:
        t = new((4, 25))
        nisa.tensor_copy(t[:, written], t[:, read])
    assert bool(told) == (not np.array_equal(at_once, streamed))


def test_the_sanitizer_finds_it():
    def shift(a):
        t, out = new((4, 16)), hbm((4, 16))
        nisa.dma_copy(t, a)
        nisa.tensor_copy(t[:, 1:16], t[:, 0:15])
        nisa.dma_copy(out, t)
        return out

    with pytest.warns(UndefinedOnChipWarning):
        run = simulator.run(shift, np.ones((4, 16), np.float32), sanitize=True)
    (finding,) = run.findings
    assert finding.kind == "clobbered" and finding.why.startswith("tensor_copy: dst sbuf[4, 15]")

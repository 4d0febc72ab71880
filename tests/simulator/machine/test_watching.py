"""Observers of the values that instructions write."""

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from nki_tensors import new, on, tile
from trninfer.simulator.machine.watching import watchers, watching


class Noted:
    """Records the values it is shown."""

    def __init__(self):
        self.written_values = []

    def written(self, tensor, values):
        self.written_values.append((tensor.shape, np.array(values), tensor.values.copy()))

    def read_as_float(self, tensor, values):
        pass

    def based(self, tensor, offset):
        pass


def test_values_are_shown_before_they_are_rounded_and_stored():
    with on():
        dst, src = new((1, 2), "bfloat16"), tile(np.array([[1 + 2.0**-10, 3.0]]))
        nisa.memset(dst, 7.0)
        noted = Noted()
        with watching(noted):
            nisa.activation(dst, nl.copy, src)
        ((shape, values, before),) = noted.written_values
        assert shape == (1, 2) and values.tolist() == [[1 + 2.0**-10, 3.0]] and before.tolist() == [[7, 7]]
        nisa.memset(dst, 0.0)
        assert len(noted.written_values) == 1


def test_all_that_watch_are_shown_until_they_end():
    first, second = Noted(), Noted()
    with on(), watching(None):
        assert not watchers
        with watching(first):
            with watching(second):
                nisa.memset(new((1, 1)), 1.0)
            nisa.memset(new((1, 1)), 2.0)
    assert (len(first.written_values), len(second.written_values)) == (2, 1)


def test_an_error_ends_the_watch():
    with pytest.raises(ValueError, match="no luck"), watching(Noted()):
        raise ValueError("no luck")
    assert not watchers

"""Random numbers are reproducible and have the documented distribution."""

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nki_tensors import like, on, tile
from trninfer.simulator import NkiValidationError


def test_rng_repeats_for_a_seed_and_fills_the_range(trn3_core):
    seed, first, second = tile([[42]], nl.int32), nl.ndarray((128, 512), nl.uint8), nl.ndarray((128, 512), nl.uint8)
    nisa.set_rng_seed(seed)
    nisa.rng(first)
    nisa.rng(second)
    assert not np.array_equal(first.values, second.values)
    nisa.set_rng_seed(seed)
    nisa.rng(second)
    assert np.array_equal(first.values, second.values)
    counts = np.bincount(first.values.reshape(-1), minlength=256)
    assert counts.min() > 180 and counts.max() < 340  # 256 expected, standard deviation 16
    assert abs(np.corrcoef(first.values[:, :-1].ravel(), first.values[:, 1:].ravel())[0, 1]) < 0.02


@given(words=st.lists(st.integers(0, 2**32 - 1), min_size=6, max_size=6))
def test_the_generator_is_xorwow(words):
    with on("trn2"):
        nisa.rand_set_state(tile([words], nl.uint32))
        dst, state = nl.ndarray((1, 3), nl.uint32), nl.ndarray((1, 6), nl.uint32)
        nisa.rng(dst, nisa.engine.gpsimd)
        nisa.rand_get_state(state)
        x, y, z, w, v, d = words
        for value in dst.values[0]:
            t = x ^ (x >> 2)
            x, y, z, w = y, z, w, v
            v = ((v ^ (v << 4)) ^ (t ^ (t << 1))) % 2**32
            d = (d + 362437) % 2**32
            assert value == (d + v) % 2**32
        assert state.values[0].tolist() == [x, y, z, w, v, d]


def test_dropout(trn3_core):
    data, chance = tile(np.ones((128, 400))), tile(np.linspace(0, 1, 128, dtype=np.float32)[:, None])
    dst = like(data)
    nisa.dropout(dst, data, chance)
    share = 1 - dst.values.mean(axis=1)
    assert share[0] == 0 and share[-1] == 1 and np.abs(share - chance.values[:, 0]).max() < 0.12
    with pytest.raises(NkiValidationError, match="0 to 1"):
        nisa.dropout(dst, data, 1.5)
    with pytest.raises(NkiValidationError, match="dtype of data"):
        nisa.dropout(like(data, nl.bfloat16), data, 0.5)


def test_limits_of_random_numbers():
    with on("trn1"):
        with pytest.raises(NkiValidationError, match="does not run on engine gpsimd"):
            nisa.rng(nl.ndarray((4, 4), nl.int32), nisa.engine.gpsimd)
        with pytest.raises(NkiValidationError, match="NeuronCore-v3"):
            nisa.rand_get_state(nl.ndarray((4, 6), nl.uint32))
    with on("trn2"):
        with pytest.raises(NkiValidationError, match="must be one of int8"):
            nisa.rng(nl.ndarray((4, 4), nl.float32))
        with pytest.raises(NkiValidationError, match="NeuronCore-v4"):
            nisa.rand2(nl.ndarray((4, 4), nl.float32), 0.0, 1.0)
        with pytest.raises(NkiValidationError, match="does not run on engine vector"):
            nisa.rand_set_state(nl.zeros((4, 24), nl.uint32), nisa.engine.vector)
        with pytest.raises(NkiValidationError, match="6 elements"):
            nisa.rand_set_state(nl.zeros((4, 24), nl.uint32))
        with pytest.raises(NkiValidationError, match=r"\[1, 1\]"):
            nisa.set_rng_seed(nl.zeros((1, 2), nl.uint32))

"""Variants of a kernel in order of predicted time, and messages about unusable ones."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trninfer import simulator
from trninfer.simulator import NkiValidationError, TensorSpec
from trninfer.simulator.search import ranking
from trninfer.simulator.search.ranking import Difference, Ranked, Ranking

A = np.random.default_rng(0).standard_normal((256, 512)).astype(np.float32)
SPEC = TensorSpec(A.shape, "float32")


@nki.jit
def doubled(a, columns=512, factor=2.0):
    assert columns <= 512, "too many columns"
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    for row in range(0, a.shape[0], 128):
        for column in range(0, a.shape[1], columns):
            tile = nl.ndarray((128, columns), a.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=a[row : row + 128, column : column + columns])
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)
            nisa.dma_copy(dst=out[row : row + 128, column : column + columns], src=tile)
    return out


VARIANTS = {f"c{columns}": (doubled, {"columns": columns}) for columns in (64, 512, 128)}


@pytest.fixture(autouse=True)
def nothing_remembered():
    ranking._known.clear()


@pytest.mark.parametrize("processes", [1, 2])
def test_variants_are_in_the_order_of_their_times(processes):
    found = simulator.rank(VARIANTS, SPEC, processes=processes)
    assert [each.name for each in found] == ["c512", "c128", "c64"]
    alone = simulator.run(doubled, A, columns=128)
    middle = found[1]
    assert (middle.latency_us, middle.sbuf_bytes, middle.instructions) == (
        alone.latency_us,
        alone.memory.sbuf_bytes,
        len(alone.program),
    )
    assert found.best is found[0] and found[0].error is None


@pytest.mark.parametrize("processes", [1, 2])
def test_failed_variants_are_last_with_the_reason(processes):
    variants = {
        "wrong": (doubled, {"factor": 3.0}),
        "refused": (doubled, {"columns": 100}),
        "raising": (doubled, {"columns": 1024}),
        "right": doubled,
        "infinite": (doubled, {"factor": np.inf}),
    }
    found = {each.name: each for each in simulator.rank(variants, A, reference=lambda a: 2 * a, processes=processes)}
    assert next(iter(found)) == "right" and found["right"].problem == "" and found["right"].error == 0
    assert "differs from the reference by 5.0e-01; the tolerance is 0.001" in found["wrong"].problem
    assert "must lie in" in found["refused"].problem and found["refused"].latency_us is None
    assert found["raising"].problem == "AssertionError: too many columns"
    assert "infinities that the reference does not contain" in found["infinite"].problem


def test_outputs_of_another_shape_or_number_are_no_match():
    (one,) = simulator.rank([doubled], A, reference=2 * A[:1])
    assert "an output of shape (256, 512), but (1, 512) in the reference" in one.problem
    (one,) = simulator.rank([doubled], A, reference=(2 * A, A))
    assert one.problem == "1 outputs, but 2 in the reference"


def test_a_variant_that_was_timed_is_not_timed_again(monkeypatch):
    first = simulator.rank(VARIANTS, SPEC)
    monkeypatch.setattr(ranking, "run", None)
    again = simulator.rank({f"again {name}": kernel for name, kernel in VARIANTS.items()}, SPEC)
    assert [each.latency_us for each in again] == [each.latency_us for each in first]
    assert again[0].name == "again c512"
    (other,) = simulator.rank([doubled], TensorSpec((128, 512), "float32"), processes=1)
    assert "not callable" in other.problem  # as it would be for other shapes


@pytest.mark.parametrize(
    "variants, message", [({}, "no variants"), ([doubled, doubled], "two variants have the name 'doubled'")]
)
def test_variants_need_names_of_their_own(variants, message):
    with pytest.raises(NkiValidationError, match=message):
        simulator.rank(variants, SPEC)


def test_the_table_marks_differences_below_the_uncertainty():
    variants = [Ranked("v1", "", 100.0, 1024, 2), Ranked("v3", "", 96.0, 2048, 2), Ranked("v2", "does not fit")]
    found = Ranking([*variants, Ranked("v4", "", 300.0, 0, 0)], "trn2")
    assert found.difference("v3", "v1").text == "-4.0 %, not distinguishable"
    lines = str(found).splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["v3", "v1", "v4", "v2"]
    assert "+4.2 %, not distinguishable" in lines[2] and "+212.5 %" in lines[3] and lines[4].endswith("does not fit")
    assert "unknown uncertainty" in str(Ranking(variants, "trn3"))
    assert Ranking([variants[2]], "trn2").best is None and "does not fit" in str(Ranking([variants[2]], "trn2"))


@given(st.floats(0.01, 100), st.floats(0.01, 1))
def test_a_difference_is_the_same_from_both_sides(ratio, uncertainty):
    there, back = Difference(ratio - 1, uncertainty), Difference(1 / ratio - 1, uncertainty)
    if abs(max(ratio, 1 / ratio) - 1 - uncertainty) > 1e-9:
        assert there.is_distinguishable == back.is_distinguishable
    assert not Difference(ratio - 1, None).is_distinguishable

"""A script with modified constants: the variants, and the results kept for each."""

import pytest
from trninfer.simulator import NkiValidationError
from trninfer.simulator.search.sweep import read_axis, sweep

SCRIPT = """
import sys

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

COLUMNS = 64
FACTOR: float = 2.0
A = B = 1


@nki.jit
def doubled(a):
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    for column in range(0, a.shape[1], COLUMNS):
        tile = nl.ndarray((128, COLUMNS), a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=a[:, column : column + COLUMNS])
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=FACTOR)
        nisa.dma_copy(dst=out[:, column : column + COLUMNS], src=tile)
    return out


if __name__ == "__main__":
    print("not to be seen")
    if COLUMNS == 1:
        sys.exit("one column is too few")
    a = np.ones((128, 512), np.float32)
    if COLUMNS > 2:
        np.testing.assert_allclose(doubled(a), 2 * a)
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "kernel.py"
    path.write_text(SCRIPT, encoding="utf-8")
    return str(path)


def test_every_combination_is_a_variant_and_the_scripts_own_checks_count(script, capfd):
    found = sweep([script], [read_axis("COLUMNS=64,8 * 32"), read_axis("FACTOR=2.0,3.0")])
    problems = {each.name: each.problem for each in found}
    assert [each.name for each in found][:2] == ["COLUMNS=8 * 32, FACTOR=2.0", "COLUMNS=64, FACTOR=2.0"]
    assert problems["COLUMNS=64, FACTOR=2.0"] == "" and found[0].latency_us < found[1].latency_us
    assert "AssertionError: Not equal to tolerance" in problems["COLUMNS=64, FACTOR=3.0"] and len(found) == 4
    assert capfd.readouterr() == ("", "")


def test_variant_without_launch_or_with_an_error_is_reported(script):
    found = {each.name: each.problem for each in sweep([script], [read_axis("COLUMNS=1,2,100,None")])}
    assert found["COLUMNS=1"] == "one column is too few" and found["COLUMNS=2"] == "no kernel was launched"
    assert "OutOfBoundsError" in found["COLUMNS=100"] and found["COLUMNS=None"].startswith("TypeError")


@pytest.mark.parametrize("text", ["COLUMNS", "COLUMNS=", "COLUMNS= ", "8=1", "COLUMNS=1)+(2", "COLUMNS=1 2", "A.b=1"])
def test_invalid_sweep_is_refused_in_one_line(text):
    with pytest.raises(NkiValidationError, match="is not a sweep; expected NAME=VALUE,VALUE"):
        read_axis(text)


def test_values_may_have_commas_within(script):
    assert len(read_axis("SHAPE=(1, 2),[3, 4],'a,b'").values) == 3


@pytest.mark.parametrize(
    "axes, message",
    [
        (["WIDTH=1"], r"no line `WIDTH = ...` at its top level; it has COLUMNS, FACTOR"),
        (["A=1"], "no line `A = ...`"),  # two names at once
        (["COLUMNS=1", "COLUMNS=2"], "COLUMNS is swept twice"),
        ([f"COLUMNS={','.join('1' * 200)}", f"FACTOR={','.join('1' * 200)}"], "40,000 variants; the limit is 10,000"),
    ],
)
def test_sweeps_that_cannot_be_run_are_one_line(script, axes, message):
    with pytest.raises(NkiValidationError, match=message):
        sweep([script], [read_axis(text) for text in axes])

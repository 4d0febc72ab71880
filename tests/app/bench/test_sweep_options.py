"""Options of `bench` that accept several values."""

import pytest
import typer
from trninfer.app.bench.sweep_options import MOST, SweepOptions, microseconds, one_of, several
from trninfer.app.errors import UsageError
from trninfer.app.option_groups import whole
from trninfer.app.options import RunOptions


def test_times_with_units() -> None:
    assert [microseconds(text) for text in ("100us", "1.5 ms", "2s", None)] == [100.0, 1500.0, 2e6, None]
    with pytest.raises(UsageError):
        microseconds("0us")


@pytest.mark.parametrize("text", ["0us", "100", "us", "-1us", "1_0us", "1e3us", "\u0661us", "9" * 400 + "s", "1 m", ""])
def test_invalid_durations(text) -> None:
    with pytest.raises(UsageError, match=r"--latency-limit .*: expected a time with its unit, such as 100us or 1\.5ms"):
        microseconds(text)


def test_times_in_every_unit() -> None:
    times = {"100us": 100, " 1.5 ms ": 1500, ".5us": 0.5, "2.us": 2, "3\u00b5s": 3, "0.2s": 200_000}
    assert {text: microseconds(text) for text in times} == times


def test_values_are_unique_in_the_given_order() -> None:
    read = several(one_of(("b", "a")))
    assert read("a,b,a") == ("a", "b") and read(("x",)) == ("x",)  # defaults are not parsed
    assert several(whole(1, 8))("8,1,+1,08") == (8, 1)
    for text in ("a,c", "a,", "", "a, b"):
        with pytest.raises(typer.BadParameter, match=r"is not one of 'b', 'a'\."):
            read(text)


def test_every_combination_with_batch_sizes_fastest() -> None:
    sweep = SweepOptions(("float32", "float16"), (1, 3), ("trn3", "trn1"))
    given = RunOptions(dtype="bfloat16", quiet=True)
    found = [(each.target, each.dtype, each.batch_size, each.quiet) for each in sweep.combinations(given)]
    assert found == [(t, d, b, True) for t in ("trn3", "trn1") for d in ("float32", "float16") for b in (1, 3)]
    assert sweep.first(given) == next(sweep.combinations(given))
    assert SweepOptions().first(RunOptions(target="trn1")).target == "trn1"  # if no target is specified


def test_when_it_is_a_sweep() -> None:
    assert not SweepOptions(target=("trn1",)).is_sweep and not SweepOptions().is_sweep
    for sweep in (
        SweepOptions(batch_size=(1, 2)),
        SweepOptions(dtype=("float32", "float16")),
        SweepOptions(target=("trn1", "trn2")),
        SweepOptions(latency_limit="1us"),
        SweepOptions(cores=1),
    ):
        assert sweep.is_sweep


def test_how_many_combinations_there_may_be() -> None:
    assert len(list(SweepOptions(batch_size=tuple(range(1, MOST + 1))).combinations(RunOptions()))) == MOST
    for sweep in (
        SweepOptions(batch_size=tuple(range(1, MOST + 2))),
        SweepOptions(("float32", "float16"), tuple(range(1, MOST // 4 + 2)), ("trn1", "trn2")),
    ):
        with pytest.raises(UsageError, match="at most 256 combinations of --batch-size, --target and --dtype"):
            sweep.first(RunOptions())

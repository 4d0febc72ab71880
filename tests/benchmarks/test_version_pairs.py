"""Ranks and ratios of versions: from invented predictions, and for pairs of versions of the same kernel."""

import pytest
from trninfer.benchmarks.measurements import load_all_kernel_rows
from trninfer.benchmarks.predictions import PredictedRow
from trninfer.benchmarks.version_pairs import (
    CHANGES,
    changes,
    changes_table,
    families_table,
    ranked_families,
    ratio_errors,
)

ROWS = {row.id: row for row in load_all_kernel_rows()}


def scaled(factors: dict[str, float]) -> list[PredictedRow]:
    """Return predictions that are the measured times multiplied by the given factors."""
    return [PredictedRow(ROWS[name], factor * ROWS[name].latency_us, ()) for name, factor in factors.items()]


def test_every_change_is_between_rows_of_one_size() -> None:
    for pairs in CHANGES.values():
        for before, after in pairs:
            first, second = ROWS[before], ROWS[after]
            assert (first.device, first.dtype, first.shapes) == (second.device, second.dtype, second.shapes), before


def test_an_error_that_all_versions_share_is_no_error_of_ratios() -> None:
    (family,) = ranked_families(scaled(dict.fromkeys(("o20", "o21", "o22", "o23", "o24"), 1.25)))
    assert family.rows == 5 and family.name == "attention decode, trn2 (o20 to o24)"
    assert family.error == pytest.approx(25) and family.ratio_error == pytest.approx(0)
    assert family.rank_correlation == pytest.approx(1)


def test_ratios_are_of_the_slower_to_the_faster() -> None:
    assert list(ratio_errors(scaled({"o20": 1.2, "o21": 1.0}))) == [pytest.approx(20)]
    assert list(ratio_errors(scaled({"o21": 1.0, "o20": 1.2}))) == [pytest.approx(20)]


def test_versions_of_two_sizes_chips_or_metrics_are_not_ranked_together() -> None:
    assert ranked_families(scaled(dict.fromkeys(("k03", "k04", "k05", "o18", "o20", "o37", "o38"), 1.0))) == []


def test_a_change_is_chosen_right_by_its_direction() -> None:
    exact = changes(scaled({"o20": 1.0, "o21": 1.0}))
    assert [(c.before, c.after, c.right) for c in exact] == [("o20", "o21", True)]
    assert exact[0].measured == pytest.approx(exact[0].predicted)
    (wrong,) = changes(scaled({"o20": 1.0, "o21": 1.2}))
    assert wrong.noticeable and not wrong.right
    (invented,) = changes(scaled({"k20": 1.0, "k21": 0.9}))  # measured alike
    assert not invented.noticeable and not invented.right


def test_tables_have_a_line_for_each() -> None:
    predictions = scaled(dict.fromkeys(("o31", "o32", "o33"), 1.0))
    header, lines = families_table(predictions)
    assert len(lines) == 1 and len(lines[0]) == len(header)
    header, lines = changes_table(predictions)
    assert [line[1:3] for line in lines] == [("o31", "o32"), ("o31", "o33")]
    assert all(len(line) == len(header) and line[-1] == "yes" for line in lines)

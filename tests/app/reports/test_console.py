"""Tables as text: how wide they are, and what they hold in a narrow window."""

import pytest
from trninfer.app.reports.console import TIGHT


@pytest.mark.parametrize("width", [40, 50, 60, 79])
def test_tables_fit_narrow_windows(cli, picture_model, monkeypatch, width) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    told = cli("bench", "--model", picture_model).out
    assert max(map(len, told.splitlines())) <= width and "predicted us" in told.replace("predicted\n", "predicted")
    assert ("columns shows shapes" in " ".join(told.split())) == (width < TIGHT)


@pytest.mark.parametrize("width", ["\u00b2", "-5", "", "9" * 30, "x"])
def test_a_width_that_is_none(cli, monkeypatch, width) -> None:
    monkeypatch.setenv("COLUMNS", width)
    assert "digits-ffnn" in cli("models").out


def test_a_narrow_window_has_a_line_for_each_value_and_breaks_no_words(cli, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    for command, told in (("models", "  parameters: 19,210"), ("doctor", "  status: ok")):
        lines = cli(command).out.splitlines()
        assert max(map(len, lines)) <= 40 and told in lines
    assert "https://pip.repos.neuron.amazonaws.com" in cli("doctor").out

"""The progress bar, shown if standard error is a terminal."""

import io

import pytest
from trninfer.app.progress import progress_bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO | None, quiet: bool = False) -> str:
    """Return what the bar draws after three of forty inputs, and after all of them."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr("sys.stderr", stream)
    with progress_bar("classifying", 40, quiet) as progress:
        progress(3)
        progress(40.0)
    return stream.getvalue() if stream is not None else ""


def test_a_terminal_is_drawn_to_and_left_clean(monkeypatch) -> None:
    text = shown(monkeypatch, Terminal())
    assert "classifying" in text and "40/40" in text
    assert text.endswith("\x1b[2K") or "\x1b[2K" in text[-20:]  # the bar disappears when the work is done


@pytest.mark.parametrize(("stream", "quiet"), [(io.StringIO(), False), (Terminal(), True), (None, False)])
def test_progress_is_drawn_only_on_a_terminal(monkeypatch, stream, quiet) -> None:
    assert shown(monkeypatch, stream, quiet) == ""


def test_exception_below_a_progress_bar_is_raised(monkeypatch) -> None:
    monkeypatch.setattr("sys.stderr", Terminal())
    with pytest.raises(ZeroDivisionError), progress_bar("classifying", 40, False):
        raise ZeroDivisionError

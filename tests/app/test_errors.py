"""Errors: exit statuses and messages."""

import contextlib
import errno
import os
import sys

import pytest
from trninfer.app.errors import Terminated, UsageError, complain, exit_status, reason
from trninfer.models.errors import InputError, ModelError
from trninfer.runtime.backend import BackendUnavailable, KernelError


def test_reasons_are_in_words() -> None:
    assert reason(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "x")) == os.strerror(errno.ENOSPC)
    assert reason(ValueError("so")) == "so" and reason(MemoryError()) == "MemoryError"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UsageError("so"), 2), (FileNotFoundError(), 2), (MemoryError(), 2), (InputError("so"), 2),
        (ModelError("so"), 2), (KernelError("so"), 2), (BackendUnavailable("so"), 3),
        (ValueError("so"), None), (KeyError("so"), None), (KeyboardInterrupt(), None), (Terminated(143), None),
    ],
)  # fmt: skip
def test_statuses_of_what_a_user_can_cause(error: BaseException, status: int | None) -> None:
    assert exit_status(error) == status


def test_a_complaint_is_lines_that_no_terminal_is_tricked_with(capsys: pytest.CaptureFixture[str]) -> None:
    complain("a\x1b[2J\nb")
    assert capsys.readouterr() == ("", "trninfer: a\\x1b[2J\\nb\n")
    complain("; ".join(["x" * 200] * 3))
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["trninfer: " + "x" * 200, "  " + "x" * 200, "  " + "x" * 200]


def test_closed_standard_error_is_not_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    complain("a")
    assert capsys.readouterr().out == ""
    with open("/dev/full", "w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stderr", full)
        complain("a")
        monkeypatch.undo()
        with contextlib.suppress(OSError):
            full.close()

"""Lines of a log."""

from __future__ import annotations

import json
import logging
import re
import sys
from typing import Any

import pytest
from trninfer.inference.serving.logs import JsonFormatter, TextFormatter

EVIL = 'a\n{"level": "error"}\x1b[31m'


def record(message: str, **fields: Any) -> logging.LogRecord:
    made = logging.LogRecord("trninfer", logging.WARNING, __file__, 1, message, (), None)
    made.fields = fields
    return made


@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter()])
def test_no_value_can_begin_a_line_of_its_own(formatter: logging.Formatter) -> None:
    line = formatter.format(record(EVIL, path=EVIL, status=200))
    assert len(line.splitlines()) == 1 and "\x1b" not in line and "200" in line


def test_a_line_of_json() -> None:
    line = json.loads(JsonFormatter().format(record("request", status=200, path="/x")))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line.pop("time"))
    assert line == {"level": "warning", "event": "request", "status": 200, "path": "/x"}


def test_a_line_for_people() -> None:
    line = TextFormatter().format(record("request", status=200, seconds=0.123456))
    assert re.fullmatch(r"\d\d:\d\d:\d\d warning request status=200 seconds=0.1235", line)


def test_a_fault_has_its_traceback() -> None:
    try:
        raise ZeroDivisionError("here")
    except ZeroDivisionError:
        made = record("fault")
        made.exc_info = sys.exc_info()
    assert "ZeroDivisionError: here" in json.loads(JsonFormatter().format(made))["traceback"]
    assert "ZeroDivisionError: here" in TextFormatter().format(made)

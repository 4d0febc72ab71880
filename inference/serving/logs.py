"""Logs of a server: one JSON object per line, or human-readable text."""

from __future__ import annotations

import json
import logging
import time
from typing import Any

LOGGER = logging.getLogger("trninfer.serving")


def log(level: str, event: str, **fields: Any) -> None:
    """Log an event with its fields; `level` is "debug", "info", "warning" or "error"."""
    LOGGER.log(getattr(logging, level.upper()), event, extra={"fields": fields})


class JsonFormatter(logging.Formatter):
    """Formats a record as a line of JSON: time (UTC), level, event, and the fields of the event."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record."""
        moment = time.gmtime(record.created)
        line: dict[str, Any] = {
            "time": f"{time.strftime('%Y-%m-%dT%H:%M:%S', moment)}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class TextFormatter(logging.Formatter):
    """Formats a record as `12:00:01 info request method=POST status=200`; unprintable characters in values are
    escaped."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record."""
        fields = "".join(f" {name}={_plain(value)}" for name, value in getattr(record, "fields", {}).items())
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        text = f"{clock} {record.levelname.lower()} {_plain(record.getMessage())}{fields}"
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


def _plain(value: Any) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)

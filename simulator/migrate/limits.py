"""Limits of a migration: nesting depth and time."""

from __future__ import annotations

import ast
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

MAX_DEPTH = 1_000  # nodes from the module to the innermost expression, for example in a sum of 1,000 terms
SECONDS = 120.0  # the longest public kernel file, with 6,700 lines, takes about 30 seconds
STACK_BYTES = 512 << 20  # stack of the migrating thread; only the part that is used takes memory
RECURSION_LIMIT = 60 * MAX_DEPTH  # libcst and the migration use fewer than 60 frames per node


class LimitError(ValueError):
    """Raised if a file exceeds a limit, which the message specifies."""


class Deadline:
    """The time limit for migrating a file.

    It is measured in processor time of the current thread, so that other threads do not count.
    """

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._end = time.thread_time() + seconds

    def check(self) -> None:
        """Raise LimitError if the time limit has been exceeded."""
        if time.thread_time() > self._end:
            raise LimitError(f"its migration takes more than {self._seconds:.0f} s; migrate it in parts")


def refuse_deep(tree: ast.AST) -> None:
    """Raise LimitError if a tree is nested deeper than MAX_DEPTH."""
    level: list[ast.AST] = [tree]
    for _ in range(MAX_DEPTH):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return
    line = next((node.lineno for node in level if hasattr(node, "lineno")), 1)
    raise LimitError(f"line {line} is nested deeper than {MAX_DEPTH:,} levels; split the expression")


def with_deep_stack(function: Callable[[], Any]) -> Any:
    """Call a function in a thread whose stack is large enough for trees of depth MAX_DEPTH."""
    outcome: list[Any] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(function())
        except BaseException as error:
            errors.append(error)

    limit, size = sys.getrecursionlimit(), threading.stack_size(STACK_BYTES)
    sys.setrecursionlimit(max(limit, RECURSION_LIMIT))
    try:
        thread = threading.Thread(target=run, name="migrate")
        thread.start()
        thread.join()
    finally:
        threading.stack_size(size)
        sys.setrecursionlimit(limit)
    if errors:
        raise errors[0]
    return outcome[0]

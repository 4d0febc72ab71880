"""Limits of a migration: nesting depth and time."""

from __future__ import annotations

import ast
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

MAX_DEPTH = 1_000  # nodes from the module to the innermost expression, as in a sum of 1,000 terms
SECONDS = 120.0  # the longest public kernel file, with 6,700 lines, takes about 30
STACK_BYTES = 512 << 20  # stack of the migrating thread: address space, of which only the used part takes memory
RECURSION_LIMIT = 60 * MAX_DEPTH  # libcst and the migration need fewer frames per node


class LimitError(ValueError):
    """The file exceeds a limit; the message says which."""


class Deadline:
    """The time left for migrating a file, in processor time of this thread: others may be busy."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._end = time.thread_time() + seconds

    def check(self) -> None:
        """Raise LimitError if the time is over."""
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
    """Call a function in a thread whose stack holds trees of MAX_DEPTH."""
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

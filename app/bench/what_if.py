"""`bench --set`: predict times for a machine with different timing constants."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..small_files import read_small_file
from ..text import parse_number

_TARGETS = ("trn1", "trn2", "trn3")
_MOST_BYTES = 1 << 20  # size limit of a file of constants

Values = dict[str, dict[str, float]]  # values of constants by target, then by name


def parse_constants(given: Sequence[str]) -> Values:
    """Parse the values of all `--set` options and return them by target.

    `name=value` applies to all targets. `@FILE` specifies a JSON file: {"name": value, ...} for all targets, or an
    object that maps targets to such objects. Later values override earlier ones. Raises UsageError for anything else.
    """
    values: Values = {target: {} for target in _TARGETS}
    names: set[str] = set()
    for part in given:
        if part.strip().startswith("@"):
            for target, constants in _read(Path(part.strip()[1:])).items():
                values[target].update(constants)
            continue
        name, number = _parse_pair(part)
        if name in names:
            raise UsageError(f"--set: {name} is given twice")
        names.add(name)
        for constants in values.values():
            constants[name] = number
    return values if any(values.values()) else {}


def _parse_pair(part: str) -> tuple[str, float]:
    """Parse `name=value` and return the name and the number."""
    name, equals, value = (piece.strip() for piece in part.partition("="))
    if not (name and equals and value):
        raise UsageError(
            f"--set: {part!r} must be name=value, such as dma_sustained=500, or @FILE, a JSON file of such values"
        )
    try:
        return name, parse_number(value)
    except ValueError:
        raise UsageError(f"--set: {name} must be a number, not {value!r}") from None


def _read(path: Path) -> Values:
    """Read the constants from a file and return them by target."""
    content = read_small_file(path, f"--set @{path}", _MOST_BYTES)
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        raise UsageError(f"--set: {path} is not valid JSON") from None
    if isinstance(document, dict) and document and set(document) <= set(_TARGETS):
        return {target: _numbers(path, constants, f"{target}: ") for target, constants in document.items()}
    return {target: _numbers(path, document, "") for target in _TARGETS}


def _numbers(path: Path, constants: Any, where: str) -> dict[str, float]:
    if not isinstance(constants, dict):
        raise UsageError(f'--set: {path}: {where}must be an object of constants, such as {{"dma_sustained": 500}}')
    for name, value in constants.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise UsageError(f"--set: {path}: {where}{name} must be a number, not {value!r}")
    return {name: float(value) for name, value in constants.items()}


@contextmanager
def another_machine(backend: str, target: str | None, constants: Mapping[str, Mapping[str, float]]) -> Iterator[None]:
    """Override these constants for `target`, or for all targets if it is None. Raises UsageError if the backend does
    not predict times or a constant is out of range."""
    if not constants:
        yield
        return
    if backend != "sim":
        raise UsageError("--set changes predictions, so it requires --backend sim")
    from ...runtime.backend import KernelError
    from ...runtime.simulated import what_if

    with ExitStack() as stack:
        for name in _TARGETS if target is None else (target,):
            try:
                stack.enter_context(what_if(constants.get(name, {}), name))
            except KernelError as error:
                raise UsageError(f"--set: {str(error).removeprefix('constants: ')}") from None
        yield

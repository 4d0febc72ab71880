"""Select the sanitizers for launches: memory (sanitizer.py) and numerics (numeric.py)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..instructions.core import NeuronCore
from ..machine.errors import NkiValidationError
from .numeric import NumericSanitizer
from .sanitizer import Sanitizer, SanitizerFinding

CHOICES = ("memory", "numeric", "all")
_chosen: list[frozenset[str]] = [frozenset()]  # default sanitizers of launches


def choice(wanted: bool | str) -> frozenset[str]:
    """Return the requested sanitizers; True means "memory", and "all" means both.

    Raises:
        NkiValidationError: there is no such sanitizer.
    """
    if isinstance(wanted, bool):
        return frozenset({"memory"} if wanted else ())
    if wanted not in CHOICES:
        raise NkiValidationError(
            f"sanitize must be one of True, False, {', '.join(map(repr, CHOICES))}, got {wanted!r}"
        )
    return frozenset(CHOICES[:2] if wanted == "all" else {wanted})


def chosen() -> frozenset[str]:
    """Return the sanitizers for launches that do not select any themselves."""
    return _chosen[-1]


@contextmanager
def sanitized(wanted: bool | str) -> Iterator[None]:
    """Check launches within this context with the sanitizers `wanted`. Observers find the faults in `Run.findings`."""
    _chosen.append(choice(wanted))
    try:
        yield
    finally:
        _chosen.pop()


def look_for(core: NeuronCore, kinds: frozenset[str]) -> None:
    """Attach the requested sanitizers to a core."""
    core.sanitizer = Sanitizer() if "memory" in kinds else None
    core.numeric = NumericSanitizer() if "numeric" in kinds else None


def findings_of(core: NeuronCore) -> list[SanitizerFinding]:
    """Return the faults found on a core, or an empty list if it was not checked."""
    observers = [observer for observer in (core.sanitizer, core.numeric) if observer is not None]
    return [finding for observer in observers for finding in observer.findings]

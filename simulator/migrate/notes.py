"""Notes of a migration: lines that should be checked, and lines that could not be rewritten."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..machine.errors import internal_error

CANNOT = "cannot"  # left unchanged, with a comment; must be rewritten by hand
CHECK = "check"  # rewritten; should be checked
MARK = "# migrate: "  # prefix of comments addressed to the author


@dataclass(frozen=True, order=True)
class Note:
    """A note on a line of the file."""

    line: int
    kind: str
    message: str

    def shown(self, path: str) -> str:
        return f"{path}:{self.line}: {self.kind}: {self.message}"


class MigrationError(Exception):
    """A bug in the migration, not in the file. `line` is a line of the file, or 0 if unknown."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


class CannotError(Exception):
    """Raised for a construct without a known equivalent. The message is a single line."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.replace("\\\n", " ").split()))


def reason_of(error: Exception) -> str:
    """Return one line that states why a statement could not be migrated, for an author or for a report of a bug."""
    if isinstance(error, CannotError):
        return str(error)
    return " ".join(internal_error(f"{type(error).__name__}: {error}").split())


@dataclass
class Notes:
    """The notes on a file, without duplicates."""

    notes: list[Note] = field(default_factory=list)

    def add(self, line: int, kind: str, message: str) -> None:
        note = Note(line, kind, message)
        if note not in self.notes:
            self.notes.append(note)


@dataclass(frozen=True)
class Migration:
    """A migrated file: its text, and notes on changes and unsupported constructs, with the lines of the old file."""

    text: str
    notes: tuple[Note, ...]

    @property
    def is_whole(self) -> bool:
        """Return True if nothing must be rewritten by hand."""
        return not any(note.kind == CANNOT for note in self.notes)

"""Notes of a migration: lines that need a look, and lines that it could not rewrite."""

from __future__ import annotations

from dataclasses import dataclass, field

CANNOT = "cannot"  # left as it was, with a comment; must be rewritten by hand
CHECK = "check"  # rewritten; something that a person should look at
MARK = "# migrate: "  # comments that begin so are for the author


@dataclass(frozen=True, order=True)
class Note:
    """A line of the file that was migrated."""

    line: int
    kind: str
    message: str

    def shown(self, path: str) -> str:
        return f"{path}:{self.line}: {self.kind}: {self.message}"


class MigrationError(Exception):
    """A fault of the migration, not of the file. `line` is one of the file, 0 where none is known."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


class CannotError(Exception):
    """A construct that has no counterpart that the migration knows. The message is one line."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.replace("\\\n", " ").split()))


@dataclass
class Notes:
    """The notes of a file, each once."""

    notes: list[Note] = field(default_factory=list)

    def add(self, line: int, kind: str, message: str) -> None:
        note = Note(line, kind, message)
        if note not in self.notes:
            self.notes.append(note)

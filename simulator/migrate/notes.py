"""Notes of a migration: the changes it made and those it could not make."""

from __future__ import annotations

from dataclasses import dataclass, field

CANNOT, CHECK, DID = "cannot", "check", "did"
KINDS = {
    CANNOT: "left as it was, with a comment; must be rewritten by hand",
    CHECK: "rewritten; something that a person should look at",
    DID: "rewritten",
}
MARK = "# migrate: "  # comments that begin so are for the author


@dataclass(frozen=True, order=True)
class Note:
    """A line of the file that was migrated."""

    line: int
    kind: str
    message: str

    def shown(self, path: str) -> str:
        return f"{path}:{self.line}: {self.kind}: {self.message}"


class CannotError(Exception):
    """A construct that has no counterpart that the migration knows."""


@dataclass
class Notes:
    """The notes of a file, each once."""

    notes: list[Note] = field(default_factory=list)

    def add(self, line: int, kind: str, message: str) -> None:
        note = Note(line, kind, message)
        if note not in self.notes:
            self.notes.append(note)

    def of(self, kind: str) -> list[Note]:
        return sorted(note for note in self.notes if note.kind == kind)

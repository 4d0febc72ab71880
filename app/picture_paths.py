"""Options that specify the pictures of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from .errors import UsageError

if TYPE_CHECKING:
    from ..inference.search import InputProblem


@dataclass(frozen=True)
class PicturePaths:
    """The pictures of a run: files, folders and globs, and lists of files."""

    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="PATH", help="Pictures, arrays, folders or globs; - for a picture on standard input."),
    ] = None
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="Include subfolders, without following links.")
    ] = False
    from_list: Annotated[
        str | None,
        typer.Option(
            "--from-list",
            metavar="FILE",
            help="Also read the pictures listed in this file, one per line; - for standard input.",
        ),
    ] = None

    def check_named(self, resume: bool, command: str, others: bool = False) -> None:
        """Raise UsageError if no picture is specified (unless there are `others`), or if --resume is used with standard
        input."""
        if not self.paths and self.from_list is None and not others:
            raise UsageError(
                f"no pictures specified; pass files, folders, - or --from-list FILE (see trninfer {command} --help)"
            )
        if resume and self.paths and "-" in self.paths:
            raise UsageError("- and --resume cannot be used together, because a picture on standard input has no name")

    def find(self) -> tuple[list[str], list[InputProblem]]:
        """Return the names of the pictures, and the arguments that match no picture."""
        from .picture_inputs import find_named_pictures

        if not self.paths and not self.from_list:
            return [], []
        return find_named_pictures(self.paths or [], self.recursive, self.from_list)

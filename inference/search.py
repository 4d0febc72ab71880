"""Find pictures: in files, folders, globs and on standard input."""

from __future__ import annotations

import fnmatch
import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..models.regular_files import describe

STANDARD_INPUT = "-"

# Suffixes that are considered in folders and globs; a file named explicitly is always tried.
PICTURE_SUFFIXES = frozenset(
    (".avif", ".bmp", ".gif", ".jpeg", ".jpg", ".pbm", ".pgm", ".png", ".pnm", ".ppm", ".tif", ".tiff", ".webp")
)


@dataclass(frozen=True)
class InputProblem:
    """An input that could not be used, and the reason."""

    input: str | int
    message: str

    def __str__(self) -> str:
        """Format the problem, as in `photo.png: no such file` or `row 3: column 2 is nan`."""
        return f"{self.input if isinstance(self.input, str) else f'row {self.input}'}: {self.message}"


@dataclass
class _Search:
    """The files found so far, each included once even if it has several names."""

    recursive: bool
    found: list[str] = field(default_factory=list)
    problems: list[InputProblem] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    _folder: tuple[str, str] = ("", "")  # the folder of the last file, and its resolved path

    def add(self, path: str, is_link: bool | None = None) -> None:
        """Add a file. If `is_link` is known, passing it saves a system call per file, which matters in large
        folders."""
        identity = path if path == STANDARD_INPUT or "\0" in path else self._real_path(path, is_link)
        if identity not in self.seen:
            self.seen.add(identity)
            self.found.append(path)

    def _real_path(self, path: str, is_link: bool | None) -> str:
        folder, name = os.path.split(path)
        if not folder or name in ("", os.curdir, os.pardir) or (os.path.islink(path) if is_link is None else is_link):
            return os.path.realpath(path)
        if self._folder[0] != folder:
            self._folder = (folder, os.path.realpath(folder))
        return os.path.join(self._folder[1], name)

    def fail(self, name: str, message: str) -> None:
        self.problems.append(InputProblem(name, message))


def find_pictures(
    arguments: Sequence[str], recursive: bool = False, listed: Sequence[str] = ()
) -> tuple[list[str], list[InputProblem]]:
    """Return the pictures that match the arguments, without duplicates, and the arguments that match none.

    Arguments keep their order and are followed by the files in `listed`, whose names are literal; the contents of
    folders and globs are sorted. Hidden files, and files in folders without the suffix of a picture, are skipped.
    `recursive` descends into nested folders, but does not follow links, which may form cycles.
    """
    search = _Search(recursive)
    for argument in arguments:
        _expand(argument, search)
    for name in listed:
        search.add(name)
    return search.found, search.problems


def _expand(argument: str, search: _Search) -> None:
    """Add the pictures of one argument, or the reason why there are none."""
    if argument == STANDARD_INPUT:
        search.add(argument)
        return
    if not argument or "\0" in argument:
        search.fail(argument, "not a valid file name")
        return
    try:
        if Path(argument).is_dir():
            _search_folder(argument, search)
        elif os.path.lexists(argument):
            search.add(argument)
        elif "://" in argument:
            search.fail(argument, "URLs are not supported; download the file and pass its path")
        elif glob.has_magic(argument):
            _search_glob(argument, search)
        else:
            search.fail(argument, "no such file or folder")
    except OSError as error:
        search.fail(argument, describe(error))


def _search_folder(folder: str, search: _Search) -> None:
    before = len(search.problems)
    any_picture = False
    for path, is_link in _pictures_in(folder, search):
        any_picture = True
        search.add(path, is_link)
    if not any_picture and len(search.problems) == before:
        advice = "" if search.recursive or not _has_folders(folder) else "; --recursive searches its subfolders"
        search.fail(folder, f"no pictures in this folder{advice}")


def _search_glob(pattern: str, search: _Search) -> None:
    before = len(search.problems)
    any_match = False
    for match in sorted(_matches(pattern, search)):
        if not os.path.isdir(match):
            search.add(match)
        elif search.recursive:
            _search_folder(match, search)
        else:
            continue
        any_match = True
    if not any_match and len(search.problems) == before:
        search.fail(pattern, "no file matches")


def _matches(pattern: str, search: _Search) -> list[str]:
    """Return the paths that match a pattern, like `glob.glob`, but record folders that cannot be read as problems."""
    if not glob.has_magic(pattern):
        return [pattern] if os.path.lexists(pattern) else []
    above, name = os.path.split(pattern)
    folders = _matches(above, search) if above not in ("", pattern) else [above]
    matches = []
    for folder in folders:
        try:
            matches += [os.path.join(folder, entry) for entry in _entries(folder, name)]
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            search.fail(folder, describe(error))
    return matches


def _entries(folder: str, name: str) -> list[str]:
    """Return the entries of a folder that match the last part of a pattern. Raises OSError if the folder cannot be
    read."""
    if not name:  # the pattern ends with a slash
        return [""] if os.path.isdir(folder) else []
    if not glob.has_magic(name):
        os.lstat(os.path.join(folder, name))
        return [name]
    entries = [entry for entry in os.listdir(folder or os.curdir) if name[0] == "." or entry[0] != "."]
    return fnmatch.filter(entries, name)


def _pictures_in(folder: str, search: _Search) -> Iterator[tuple[str, bool]]:
    """Yield the pictures of a folder in sorted order, and whether each is a link. If `recursive`, include the pictures
    of nested folders."""
    folders = [folder]
    while folders:
        folder_name = folders.pop()
        try:
            visible = _visible(folder_name)
        except OSError as error:  # missing permission, or the folder was removed in the meantime
            search.fail(folder_name, describe(error))
            continue
        yield from ((os.path.join(folder_name, name), is_link) for name, is_folder, is_link in visible if not is_folder)
        if search.recursive:
            folders += [os.path.join(folder_name, name) for name, is_folder, _ in reversed(visible) if is_folder]


def _visible(folder: str) -> list[tuple[str, bool, bool]]:
    """Return (name, whether it is a folder, whether it is a link) of the folders and pictures in a folder, sorted."""
    with os.scandir(folder) as entries:
        return sorted(
            (entry.name, is_folder, entry.is_symlink())
            for entry in entries
            if (is_folder := entry.is_dir(follow_symlinks=False)) or _is_picture(entry.name)
            if not entry.name.startswith(".")
        )


def _is_picture(name: str) -> bool:
    return os.path.splitext(name)[1].lower() in PICTURE_SUFFIXES


def _has_folders(folder: str) -> bool:
    with os.scandir(folder) as entries:
        return any(entry.is_dir() and not entry.name.startswith(".") for entry in entries)

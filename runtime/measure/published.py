"""Predict published kernels from their own source.

`published.csv` specifies, for each published time of a kernel whose source is public, the repository, commit and file
of the kernel, and the options with which it was timed. The sources belong to their authors and are not part of
trninfer. They are read from checkouts (`FOLDER/owner/repository`) and migrated to NKI 0.7 in memory, as by `trninfer
simulate`.
"""

from __future__ import annotations

import ast
import csv
import hashlib
import re
import sys
import textwrap
import types
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from ...models.errors import TrninferError
from ...simulator import Run, TensorSpec, install, run

NOT_COMPARABLE = "not comparable: "  # prefix of the note of a kernel whose published time belongs to another program
NOT_PREDICTED = "not predicted: "  # prefix of the note of a kernel that cannot be predicted from its source
_BLOCK = re.compile(r"^\.\. code-block:: python\n\n((?:[ \t]+\S.*\n|[ \t]*\n)+)", re.M)
_DIGITS = 12  # number of digits of the SHA-256 that are stored


class SourceError(TrninferError, ValueError):
    """A published source is missing, cannot be migrated, or is not the kernel that was published."""


@dataclass(frozen=True)
class PublishedKernel:
    """A published time, and the source of the kernel that was timed."""

    row: str  # id in benchmarks/data/latency-kernels.csv, "" if it is not in that file
    suite: str  # `suite` and `case` identify a case in suites.csv, "" if it is not in that file
    case: str
    published_us: float
    profiled: bool  # True if the time is the total of a profile, not the result of a benchmark
    target: str
    dge: bool  # False: compiled with --disable-dge
    cores: int  # number of cores of the launch
    arguments: tuple[TensorSpec, ...]
    parameters: dict[str, Any]
    library: str  # folder below the checkouts from which the kernel imports, "" if none
    repository: str
    commit: str
    file: str  # with `#N` appended if the kernel is in the N-th Python block of a documentation page
    sha256: str  # digest of the whole file
    kernel: str
    constants: dict[str, int]  # constants that the author changed before timing the kernel
    note: str

    @property
    def is_comparable(self) -> bool:
        """False if, according to the note, the published time cannot be compared with a prediction from the source."""
        return self.is_predicted and not self.note.startswith(NOT_COMPARABLE)

    @property
    def is_predicted(self) -> bool:
        """False if, according to the note, the source cannot be predicted."""
        return not self.note.startswith(NOT_PREDICTED)

    @property
    def source(self) -> str:
        """Return the repository, commit and file of the source, and the constants to set."""
        constants = "".join(f" with {name} = {value}" for name, value in self.constants.items())
        return f"github.com/{self.repository} {self.commit} {self.file}{constants}"

    def path(self, folder: Path) -> Path:
        """Return the path of the source below a folder of checkouts."""
        return folder / self.repository / self.file.partition("#")[0]


@cache
def published_kernels() -> tuple[PublishedKernel, ...]:
    """Return all published kernels in the order of the file."""
    text = resources.files(__package__).joinpath("published.csv").read_text(encoding="utf-8")
    return tuple(_kernel(record) for record in csv.DictReader(text.splitlines()))


def _kernel(record: dict[str, str]) -> PublishedKernel:
    return PublishedKernel(
        row=record["row"],
        suite=record["suite"],
        case=record["case"],
        published_us=float(record["published_us"]),
        profiled=record["metric"] == "profile",
        target=record["target"],
        dge=record["dge"] == "yes",
        cores=int(record["cores"]),
        arguments=tuple(_argument(text, record["dtype"]) for text in record["shapes"].split()),
        parameters=_numbers(record["parameters"]),
        library=record["library"],
        repository=record["repository"],
        commit=record["commit"],
        file=record["file"],
        sha256=record["sha256"],
        kernel=record["kernel"],
        constants=_numbers(record["constants"]),
        note=record["note"],
    )


def _argument(text: str, dtype: str) -> TensorSpec:
    """Return the argument described by a shape such as 128x512, or 128x512:int8 if its dtype differs from the dtype of
    the row."""
    shape, _, dtype_name = text.partition(":")
    return TensorSpec(tuple(int(extent) for extent in shape.split("x")), dtype_name or dtype)


def _numbers(text: str) -> dict[str, int]:
    return {name: int(value) for name, _, value in (word.partition("=") for word in text.split())}


def find_published(suite: str, case: str, published_us: float | None) -> PublishedKernel | None:
    """Return the published kernel of a case of a suite, or None if its source was not published."""
    for kernel in published_kernels():
        if (kernel.suite, kernel.case, kernel.published_us) == (suite, case, published_us):
            return kernel
    return None


def find_row(row: str) -> PublishedKernel:
    """Return the published kernel of a row of benchmarks/data. Raises KeyError if there is none."""
    return {kernel.row: kernel for kernel in published_kernels()}[row]


def predict_published(published: PublishedKernel, folder: Path) -> float:
    """Predict a published kernel from its source, in microseconds.

    Args:
        folder: the folder of checkouts, as created by `git clone https://github.com/OWNER/NAME FOLDER/OWNER/NAME`. The
            sources are executed, so use only repositories that you trust.

    Raises:
        SourceError: the source is missing, has a different version, or cannot be migrated or run.
    """
    return float(run_published(published, load_published(published, folder)).latency_us)


def run_published(published: PublishedKernel, kernel: Any, pure: bool = False) -> Run:
    """Launch a kernel that `load_published` returned, in shape-only mode. Raises SourceError if it cannot be run."""
    try:
        return run(
            kernel if published.cores == 1 else kernel[published.cores],
            *published.arguments,
            target=published.target,
            dge=published.dge,
            profiled=published.profiled,
            functional=False,
            pure=pure,
            **published.parameters,
        )
    except Exception as error:  # third-party kernels may raise any exception
        raise SourceError(f"{published.repository} {published.file}: {published.kernel}: {_line(error)}") from None


def load_published(published: PublishedKernel, folder: Path) -> Any:
    """Return the migrated kernel of a published source, with the constants set by its author. Raises SourceError."""
    path = published.path(folder)
    file = published.file.partition("#")[0]
    checkout = f"git -C {folder / published.repository} checkout {published.commit} -- {file}"
    try:
        data = path.read_bytes()
    except OSError:
        clone = f"git clone https://github.com/{published.repository} {folder / published.repository}"
        is_cloned = (folder / published.repository).is_dir()
        raise SourceError(f"{path}: no such file; download it with `{checkout if is_cloned else clone}`") from None
    digest = hashlib.sha256(data).hexdigest()[:_DIGITS]
    if digest != published.sha256:
        raise SourceError(f"{path}: this is not the version that was timed; check it out with `{checkout}`")
    module = types.ModuleType(f"published {path.stem}")
    module.__file__ = str(path)
    install()
    places = [str(path.parent), *([str(folder / published.library)] if published.library else [])]
    sys.path[:0] = places
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            source = _migrated(_python(published, data.decode()), published.constants)
            exec(compile(source, str(path), "exec"), module.__dict__)
    except SourceError:
        raise
    except Exception as error:  # third-party files may raise any exception
        raise SourceError(f"{path}: {_line(error)}") from None
    finally:
        for folder_name in places:
            sys.path.remove(folder_name)
    if not hasattr(module, published.kernel):
        raise SourceError(f"{path}: contains no kernel {published.kernel}")
    return getattr(module, published.kernel)


def _python(published: PublishedKernel, text: str) -> str:
    """Return the Python code of a file, or of one block of a documentation page."""
    number = published.file.partition("#")[2]
    if not number:
        return text
    blocks = [textwrap.dedent(block) for block in _BLOCK.findall(text)]
    matches = [block for block in blocks if f"def {published.kernel}(" in block]
    if len(matches) < int(number):
        raise SourceError(f"{published.file}: expected one code block with {published.kernel}, found {len(matches)}")
    return matches[int(number) - 1]


def _migrated(text: str, constants: dict[str, int]) -> str:
    from ...simulator.migrate import migrate_source  # needs libcst

    return migrate_source(set_constants(text, constants)).text


def set_constants(text: str, constants: dict[str, int]) -> str:
    """Return a source with other numbers assigned to some names, for example `ROW_CHUNK = 1` instead of `ROW_CHUNK =
    128`.

    Raises SourceError if no number is assigned to one of the names.
    """
    lines = text.encode().splitlines(keepends=True)
    for name, value in constants.items():
        places = list(_assigned(ast.parse(text), name))
        if not places:
            raise SourceError(f"the source does not assign a number to {name}")
        for node in places:
            line = lines[node.lineno - 1]
            lines[node.lineno - 1] = line[: node.col_offset] + str(value).encode() + line[node.end_col_offset :]
        text = b"".join(lines).decode()
    return text


def _assigned(tree: ast.Module, name: str) -> Iterator[ast.Constant]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Constant):
            continue
        is_assigned = any(isinstance(target, ast.Name) and target.id == name for target in node.targets)
        if is_assigned and type(node.value.value) is int:
            yield node.value


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"

"""Run a migrated file on the simulator, and report the comparisons that it makes with its references.

Both functions run the file as a script in a separate process:

    found = check(text, path)     # runs the migrated file, in the folder of the old file
    found.launches, found.comparisons, found.failures, found.error
    compare(old, text, path)      # also runs the old file, if possible: launches and outputs must be the same
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import json
import os
import runpy
import subprocess
import sys
import tempfile
import traceback
import unittest
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..machine.syntax import parse
from .expected import different_lines, undecided_lines
from .names import OLD_PACKAGE

SECONDS = 600.0  # time limit for a run
SAVED_BYTES = 64 << 20  # limit for the outputs that are saved to compare the old and the new file
COMPARISONS = {
    "numpy": ("allclose", "array_equal", "array_equiv"),
    "numpy.testing": (
        "assert_allclose", "assert_array_equal", "assert_array_almost_equal", "assert_almost_equal", "assert_equal",
    ),
    "torch": ("allclose", "equal"),
    "torch.testing": ("assert_close",),
}  # fmt: skip


@dataclass
class Check:
    """The result of running a file: kernel launches, comparisons after the first launch, and failures."""

    launches: int = 0
    comparisons: int = 0
    failures: list[str] = field(default_factory=list)
    error: str = ""

    @property
    def well(self) -> bool:
        """Return True if at least one comparison was made and all comparisons succeeded."""
        return self.comparisons > 0 and not self.failures and not self.error

    @property
    def runs(self) -> bool:
        """Return True if a kernel was launched and no error occurred."""
        return self.launches > 0 and not self.failures and not self.error

    @property
    def shown(self) -> str:
        """Return a one-line summary, such as "3 launches, 3 of 3 comparisons hold"."""
        launches = "1 launch" if self.launches == 1 else f"{self.launches} launches"
        holding = self.comparisons - len(self.failures)
        compared = f"{holding} of {self.comparisons} comparisons hold" if self.comparisons else "nothing was compared"
        first = f"; {self.failures[0]}" if self.failures else ""
        return f"{launches}, {compared}{first}" + (f"; {self.error}" if self.error else "")


def check(text: str, path: Path) -> Check:
    """Run the text of a file as a script, and then its tests if the script made no comparison.

    The script runs in a separate process, which discards standard output and can import modules from the folder of
    `path`.
    """
    with tempfile.TemporaryDirectory() as folder:
        return _run(text, path, Path(folder))


def compare(old: str, new: str, path: Path) -> tuple[Check, str]:
    """Run a migrated file and, if possible, the old file. Return the result and a description of the comparison."""
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        result = _run(new, path, Path(second))
        if old == new:
            return result, ""
        if OLD_PACKAGE in old and not _is_installed(OLD_PACKAGE):
            return result, f"the old file does not run here, because {OLD_PACKAGE} is not installed"
        before = _run(old, path, Path(first))
        if not before.runs:
            return result, f"the old file does not run: {before.shown}"
        if result.launches < before.launches:
            result.error = result.error or f"the old file launches {before.launches} kernels"
            return result, "the migrated file launches fewer kernels"
        differing = [name for name in sorted(os.listdir(first)) if not _agree(Path(first, name), Path(second, name))]
        if differing:
            result.error = result.error or f"{len(differing)} outputs differ from the old file"
        return result, "the old file runs, with other outputs" if differing else "the old file has the same outputs"


def _is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ImportError:  # raised by the simulator, with the replacement for the package
        return False


def _agree(first: Path, second: Path) -> bool:
    """Return True if two saved arrays agree within the precision of their dtype, or if either file is missing."""
    if first.suffix != ".npy":
        return True
    if not second.exists():
        return False
    a, b = (np.load(path) for path in (first, second))
    return a.shape == b.shape and bool(np.allclose(a, b, rtol=1e-2, atol=1e-5, equal_nan=True))


def _run(text: str, path: Path, folder: Path) -> Check:
    file, answer = Path(folder, path.name), Path(folder, "answer.json")
    file.write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", __name__, str(file), str(path.parent.resolve()), str(answer)]
    environment = {"NKI_SIMULATOR": "1", "NEURON_PLATFORM_TARGET_OVERRIDE": "trn2", **os.environ}
    nothing = subprocess.DEVNULL
    try:
        ended = subprocess.run(command, stdin=nothing, stdout=nothing, env=environment, check=False, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return Check(error=f"it runs longer than {SECONDS:.0f} s")
    if not answer.exists():
        return Check(error=f"the process that ran it ended with status {ended.returncode}")
    return Check(**json.loads(answer.read_text(encoding="utf-8")))


class _Recorder:
    """Counts the launches and comparisons that a running file makes."""

    def __init__(self, file: str) -> None:
        self.found = Check()
        self._file = file
        self.saved_bytes = 0
        self._inside = False  # True during a comparison, which may call other comparison functions
        tree = parse(Path(file).read_text(encoding="utf-8"))
        self._different, self._undecided = different_lines(tree), undecided_lines(tree)

    def wrapped(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def compare(*args: Any, **kwargs: Any) -> Any:
            outermost, self._inside = not self._inside, True
            holds = True
            try:
                result = function(*args, **kwargs)
                holds = result is None or bool(result)
                return result
            except AssertionError:
                holds = False
                raise
            finally:
                if outermost:
                    self._inside = False
                    self._count(name, holds, args)

        return compare

    def _count(self, name: str, holds: bool, values: Sequence[Any]) -> None:
        """Count a comparison after the first launch, which fails unless its result is the one that the file asserts."""
        if not self.found.launches:
            return
        self.found.comparisons += 1
        line = next((f.lineno for f in inspect.stack(0) if f.filename == self._file), 0)
        if line not in self._undecided and holds == (line in self._different):
            failure = (
                "holds, but the file asserts that it does not" if holds else "does not hold" + _difference(*values)
            )
            self.found.failures.append(f"line {line} of the migrated file: {name} {failure}")

    def run(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function and record the exceptions that it raises, except for failed comparisons."""
        before = len(self.found.failures)
        try:
            return function(*args)
        except SystemExit as end:
            if end.code not in (None, 0, False) and len(self.found.failures) == before:
                self.found.error = self.found.error or f"it ends with status {end.code}"
        except BaseException as error:
            if len(self.found.failures) == before:
                self.found.error = self.found.error or self._described(error)
        return None

    def _described(self, error: BaseException) -> str:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == self._file]
        place = f"line {lines[-1]} of the migrated file: " if lines else ""
        return place + traceback.format_exception_only(error)[-1].strip()


def _difference(*values: Any) -> str:
    """Describe the difference between the first two values, which were compared.

    Return "" if the difference is not a number.
    """
    try:
        first, second = (np.asarray(value, np.float64) for value in values[:2])
        with np.errstate(all="ignore"):
            shares = np.abs(first - second) / np.abs(second)
        largest = float(np.max(shares[np.isfinite(shares)], initial=0.0))
    except (TypeError, ValueError):
        return ""
    rounded = " (a bfloat16 is rounded by up to 0.39 %)" if 0 < largest <= 2**-8 else ""
    return f", the values differ by up to {100 * largest:.3g} %{rounded}" if largest else ""


def _main(arguments: Sequence[str]) -> None:
    from ..running import kernel
    from ..running.install import install

    file, folder, answer = arguments
    install()
    recorder = _Recorder(file)
    launch = kernel.execute
    kernel.execute = lambda *args, **options: _launched(recorder, launch(*args, **options), Path(answer).parent)
    for module, names in COMPARISONS.items():
        if module.split(".")[0] == "torch" and "torch" not in Path(file).read_text(encoding="utf-8"):
            continue
        try:
            loaded = importlib.import_module(module)
        except ImportError:
            continue
        for name in names:
            setattr(loaded, name, recorder.wrapped(f"{module}.{name}", getattr(loaded, name)))
    sys.argv = [file]
    sys.path[0] = folder
    recorder.run(runpy.run_path, file, None, "__main__")
    if not recorder.found.comparisons and not recorder.found.error:
        recorder.found.launches = 0
        _run_tests(recorder, recorder.run(runpy.run_path, file, None, Path(file).stem) or {})
    Path(answer).write_text(json.dumps(asdict(recorder.found)), encoding="utf-8")


def _launched(recorder: _Recorder, result: Any, folder: Path) -> Any:
    """Count a launch, save its outputs unless the size limit has been reached, and return the outputs."""
    recorder.found.launches += 1
    for number, output in enumerate(result if isinstance(result, (tuple, list)) else [result]):
        recorder.saved_bytes += getattr(output, "nbytes", 0)
        if isinstance(output, np.ndarray) and recorder.saved_bytes < SAVED_BYTES:
            wide = output if output.dtype.kind in "iub" else output.astype(np.float64)
            np.save(Path(folder, f"{recorder.found.launches}-{number}.npy"), wide)
    return result


def _run_tests(recorder: _Recorder, names: dict[str, Any]) -> None:
    """Run the tests in a file: unittest test cases, and functions test_...() without required parameters."""
    for name, value in list(names.items()):
        if isinstance(value, type) and issubclass(value, unittest.TestCase) and value is not unittest.TestCase:
            result = unittest.TestResult()
            recorder.run(unittest.defaultTestLoader.loadTestsFromTestCase(value).run, result)
            for _, trace in (*result.errors, *result.failures):
                if not recorder.found.failures:
                    recorder.found.error = recorder.found.error or trace.strip().splitlines()[-1]
        elif name.startswith("test") and inspect.isfunction(value) and not inspect.signature(value).parameters:
            recorder.run(value)


if __name__ == "__main__":
    _main(sys.argv[1:])

"""Files beside pictures that anyone may have put there, and that must never run."""

import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

INSTALLED = ("numpy", "ray", "PIL", "typer", "rich", "ml_dtypes", "safetensors", "sitecustomize", "usercustomize")


def set_traps(folder: Path) -> None:
    """Write modules to `folder` that leave a file when they are imported: one for every module of the standard library
    that the interpreter does not import itself, one for some installed packages, and one for this package."""
    spring = "import os; open(__file__ + '.sprung', 'w').close()\n"
    for name in (*INSTALLED, *(sys.stdlib_module_names - _imported_by_the_interpreter())):
        (folder / f"{name}.py").write_text(spring, encoding="utf-8")
    (folder / "trninfer").mkdir()
    (folder / "trninfer" / "__init__.py").write_text(spring, encoding="utf-8")


def sprung(folder: Path) -> list[str]:
    """Return the traps that were run."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*.sprung"))


@cache
def _imported_by_the_interpreter() -> frozenset[str]:
    """Return the modules that `python -m` imports before the first line of its module."""
    with TemporaryDirectory() as folder:
        (Path(folder) / "alone.py").write_text("import sys; print(*sys.modules)", encoding="utf-8")
        command = [sys.executable, "-m", "alone"]
        return frozenset(subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder).stdout.split())

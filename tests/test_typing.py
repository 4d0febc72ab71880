"""Type checking with an installed trninfer: mypy on a file of two lines, with an editable install."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
USER = "import trninfer\nreveal_type(trninfer.bench(batch_size=2).total_us)\ntrninfer.classify(7, nonsense=True)\n"


def run(*command: object, **environment: str) -> str:
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, env={**os.environ, **environment}, timeout=300
    )
    return done.stdout + done.stderr


@pytest.mark.by_hand
def test_mypy_reads_the_types_of_an_editable_install(tmp_path: Path) -> None:
    """A copy is installed, since setuptools writes its links beside the sources."""
    pytest.importorskip("setuptools", minversion="77")
    copy, user = tmp_path / "copy", tmp_path / "user.py"
    names = [
        path for path in subprocess.check_output(["git", "-C", ROOT, "ls-files", "-z"]).decode().split("\0") if path
    ]
    for name in names:
        if name.endswith((".py", ".typed", ".toml", ".md", "LICENSE")) and not name.startswith(
            ("tests/", "benchmarks/")
        ):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes((ROOT / name).read_bytes())
    (copy / "docs").mkdir(exist_ok=True)
    (copy / "docs" / "trninfer.1").touch()
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
    words = (
        "install",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "--config-settings",
        "editable_mode=strict",
        "-e",
        copy,
    )
    told = run(python, "-m", "pip", *words, PYTHONPATH=os.pathsep.join(sys.path[1:]))
    assert "Successfully installed trninfer" in told, told
    user.write_text(USER)
    checked = run(sys.executable, "-m", "mypy", "--python-executable", python, "--config-file=", user)
    assert 'Revealed type is "float"' in checked, checked
    assert 'Unexpected keyword argument "nonsense"' in checked and "import-untyped" not in checked


def test_the_wheel_has_the_marker_and_the_docs_the_setting() -> None:
    """The package data contain the marker of PEP 561; the docs and CONTRIBUTING name the mode that type checkers
    understand."""
    assert '"py.typed"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8") and (ROOT / "py.typed").exists()
    for page in ("docs/python.md", "CONTRIBUTING.md"):
        assert "editable_mode=strict" in (ROOT / page).read_text(encoding="utf-8"), page

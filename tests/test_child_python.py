"""Starting another Python: where it searches for modules."""

import subprocess
import sys

from traps import set_traps, sprung
from trninfer import child_python
from trninfer.runtime.neuron import compile_worker


def test_a_child_imports_nothing_of_the_current_folder(tmp_path) -> None:
    set_traps(tmp_path)
    command = child_python.python_command(compile_worker.__name__, "main")
    done = subprocess.run(command, cwd=tmp_path, input=b"no job", capture_output=True)
    assert b"JSONDecodeError" in done.stderr  # it was able to read its job
    assert sprung(tmp_path) == []


def test_a_child_searches_the_paths_of_its_parent_and_then_its_environment(tmp_path, monkeypatch) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "told.py").write_text(f"def tell(word): print('{name}', word)\n", encoding="utf-8")
    command = child_python.python_command("told", "tell", "a")
    environment = {"PYTHONPATH": str(tmp_path / "second")}
    assert subprocess.run(command, env=environment, capture_output=True).stdout == b"second a\n"
    monkeypatch.setattr(sys, "path", ["", str(tmp_path / "first"), *sys.path])
    command = child_python.python_command("told", "tell", "b")
    assert subprocess.run(command, env=environment, capture_output=True).stdout == b"first b\n"

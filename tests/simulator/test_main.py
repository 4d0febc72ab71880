"""The command that runs a script on the simulator; test_script.py tests the environment of scripts."""

import subprocess
import sys

import pytest
from trninfer.simulator.__main__ import MISUSED, USAGE, main

SCRIPT = """
import nki, nki.language as nl, numpy as np

@nki.jit
def copied(a):
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(a))
    return out

print(copied(np.ones((4, 3), np.float32)).sum())
"""


def test_a_line_for_each_launch_is_written_to_standard_error(tmp_path):
    """Run as a separate command."""
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "trninfer.simulator", "script.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "12.0\n")
    (line,) = done.stderr.splitlines()
    assert line.startswith("copied([4, 3] float32) on trn2: ") and " us predicted, bound by " in line


@pytest.mark.parametrize("arguments", [[], ["-h"], ["--help"]])
def test_help_is_asked_for_or_needed(capsys, arguments):
    assert main(arguments) == (0 if arguments else MISUSED)
    told = capsys.readouterr()
    assert (told.out if arguments else told.err).startswith(USAGE)
    assert (told.err if arguments else told.out) == ""


def test_unusable_script_is_refused_in_one_line(tmp_path, capsys, monkeypatch):
    assert main([str(tmp_path / "none.py")]) == MISUSED
    assert capsys.readouterr().err == f"no such script: {tmp_path / 'none.py'}\n"
    (tmp_path / "script.py").write_text("")
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn9")
    assert main([str(tmp_path / "script.py")]) == MISUSED
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and "trn9" in told


def test_the_status_is_the_script_s(tmp_path):
    (tmp_path / "script.py").write_text("import sys; sys.exit(int(sys.argv[1]))")
    assert [main([str(tmp_path / "script.py"), code]) for code in "07"] == [0, 7]

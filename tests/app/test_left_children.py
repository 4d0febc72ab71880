"""Processes that a script leaves running."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from processes import wait_for_ends

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's /proc")

HARNESS = """
import subprocess, sys
slow = [sys.executable, "-c", "import time; time.sleep(600)", "multiprocessing.resource_tracker"]
child = subprocess.Popen(slow)
again = "import subprocess as s, sys; print(s.Popen(sys.argv[1:], stdout=s.DEVNULL, start_new_session=True).pid)"
orphan = subprocess.run([sys.executable, "-c", again, *slow], stdout=subprocess.PIPE, text=True).stdout
print(child.pid, orphan, flush=True)
{end}
"""


SLOW = [pytest.param(end, marks=pytest.mark.slow) for end in ("raise SystemExit(3)", "raise ValueError")]


@pytest.mark.parametrize("end", ["", "import os; os._exit(3)", *SLOW])
def test_no_process_of_a_harness_outlives_simulate(tmp_path: Path, end: str) -> None:
    (tmp_path / "harness.py").write_text(HARNESS.format(end=end))
    program = "from trninfer.app.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "simulate", str(tmp_path / "harness.py")],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        timeout=300,
    )
    processes = [int(word) for word in done.stdout.split()]
    assert len(processes) == 2
    wait_for_ends(processes)
    assert [path.name for path in tmp_path.iterdir()] == ["harness.py"]

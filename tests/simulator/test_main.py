"""The command that runs a script on the simulator."""

import subprocess
import sys


def test_a_failing_script_shows_its_own_frames_only(tmp_path):
    script = tmp_path / "broken.py"
    script.write_text("def fail():\n    raise ValueError('no luck')\n\nfail()\n")
    done = subprocess.run(
        [sys.executable, "-m", "trninfer.simulator", "broken.py"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "no luck" in done.stderr and "broken.py" in done.stderr
    assert "runpy" not in done.stderr

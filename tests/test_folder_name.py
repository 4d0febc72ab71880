"""A clone may have any name, such as `trninfer-main`, which is not a valid package name."""

import subprocess
import sys
from pathlib import Path


def test_tests_run_in_a_folder_whose_name_has_a_hyphen(tmp_path) -> None:
    clone = tmp_path / "trninfer-main"
    clone.symlink_to(Path(__file__).parents[1])
    command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", "tests/test_dockerfile.py"]
    done = subprocess.run(command, cwd=clone, env={"PWD": str(clone), "PATH": ""}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout

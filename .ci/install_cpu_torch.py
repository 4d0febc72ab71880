"""Installs PyTorch, with which a few tests compare, if pip would take a build for CPUs: those for CUDA are large."""

import json
import subprocess
import sys

PIP = [sys.executable, "-m", "pip", "install", "--quiet", "torch>=2.4"]


def main() -> None:
    """Install it, or say why not; neither is a failure."""
    tried = subprocess.run([*PIP, "--dry-run", "--report", "-"], capture_output=True, text=True)
    if tried.returncode:
        print("PyTorch cannot be had here; the tests that compare with it skip")
        return
    wanted = [package["metadata"]["name"] for package in json.loads(tried.stdout)["install"]]
    if any(name.startswith(("nvidia", "cuda", "triton")) for name in wanted):
        print("PyTorch is only to be had with CUDA here; the tests that compare with it skip")
        return
    subprocess.run(PIP, check=True)


if __name__ == "__main__":
    main()

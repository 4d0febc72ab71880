"""Installs PyTorch, with which a few tests compare, where pip would take a build for CPUs: those for CUDA are large."""

import json
import subprocess
import sys

PIP = [sys.executable, "-m", "pip", "install", "--quiet"]
CHOICES = ("torch>=2.4", "torch==2.13.0")  # the newest, else one that some indexes hold for CPUs


def wanted_by(requirement: str) -> list[str] | None:
    """The packages that pip would install for it; None where it finds none."""
    tried = subprocess.run([*PIP, requirement, "--dry-run", "--report", "-"], capture_output=True, text=True)
    if tried.returncode:
        return None
    return [package["metadata"]["name"] for package in json.loads(tried.stdout)["install"]]


def main() -> None:
    """Install it, or say why not; neither is a failure."""
    for requirement in CHOICES:
        wanted = wanted_by(requirement)
        if wanted is not None and not any(name.startswith(("nvidia", "cuda", "triton")) for name in wanted):
            subprocess.run([*PIP, requirement], check=True)
            return
    print("PyTorch for CPUs is not to be had here; the tests that compare with it skip")


if __name__ == "__main__":
    main()

"""Install PyTorch, with which a few tests compare, if pip would choose a build for CPUs. Builds for CUDA are large."""

import json
import subprocess
import sys

PIP = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile"]
CHOICES = ("torch>=2.4", "torch==2.13.0")  # the newest version, else a version that some indexes provide for CPUs


def wanted_by(requirement: str) -> list[str] | None:
    """Return the packages that pip would install for a requirement; None if it finds none."""
    tried = subprocess.run([*PIP, requirement, "--dry-run", "--report", "-"], capture_output=True, text=True)
    if tried.returncode:
        return None
    return [package["metadata"]["name"] for package in json.loads(tried.stdout)["install"]]


def main() -> None:
    """Install PyTorch, or print why it cannot be installed, which is not a failure."""
    for requirement in CHOICES:
        wanted = wanted_by(requirement)
        if wanted is not None and not any(name.startswith(("nvidia", "cuda", "triton")) for name in wanted):
            subprocess.run([*PIP, requirement], check=True)
            return
    print("PyTorch for CPUs cannot be installed here; tests that compare with it are skipped")


if __name__ == "__main__":
    main()

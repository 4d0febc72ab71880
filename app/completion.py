"""Shell completion of models and timing constants. The shell itself completes file names."""

from __future__ import annotations

import glob
import os


def complete_model(incomplete: str) -> list[str]:
    """Return bundled models, model files, and the folders that may contain them."""
    from ..models.files import WEIGHTS_DIRECTORY

    bundled = sorted(file.stem for file in WEIGHTS_DIRECTORY.glob("*.safetensors"))
    found = sorted(glob.glob(f"{glob.escape(incomplete)}*"))
    files = [path for path in found if path.endswith(".safetensors")]
    folders = [f"{path}{os.sep}" for path in found if os.path.isdir(path)]
    return [name for name in bundled if name.startswith(incomplete)] + files + folders


def complete_constant(incomplete: str) -> list[str]:
    """Return `name=` of a timing constant, or `@` and a file name, for --set."""
    if incomplete.startswith("@"):
        found = sorted(glob.glob(f"{glob.escape(incomplete[1:])}*"))
        return [f"@{path}{os.sep if os.path.isdir(path) else ''}" for path in found]
    from ..simulator.timing.constants import TABLE

    return [f"{name}=" for name in sorted(TABLE) if name.startswith(incomplete)]

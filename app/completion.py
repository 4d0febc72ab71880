"""Shell completion of models and timing constants; the shell itself completes file names."""

from __future__ import annotations

import glob
import os


def complete_model(incomplete: str) -> list[str]:
    """Return the bundled models, model files, and folders that may contain model files."""
    from ..models.files import WEIGHTS_DIRECTORY

    bundled = sorted(file.stem for file in WEIGHTS_DIRECTORY.glob("*.safetensors"))
    paths = sorted(glob.glob(f"{glob.escape(incomplete)}*"))
    files = [path for path in paths if path.endswith(".safetensors")]
    folders = [f"{path}{os.sep}" for path in paths if os.path.isdir(path)]
    return [name for name in bundled if name.startswith(incomplete)] + files + folders


def complete_constant(incomplete: str) -> list[str]:
    """Return completions for --set: `name=` for each timing constant, or `@` followed by a file name."""
    if incomplete.startswith("@"):
        paths = sorted(glob.glob(f"{glob.escape(incomplete[1:])}*"))
        return [f"@{path}{os.sep if os.path.isdir(path) else ''}" for path in paths]
    from ..simulator.timing.constants import TABLE

    return [f"{name}=" for name in sorted(TABLE) if name.startswith(incomplete)]

"""Install the simulator as the package that `import nki` finds."""

from __future__ import annotations

import os
import sys

_SPAWNED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "spawned")


def install() -> None:
    """Make `import nki` find the simulator, even if the real package is installed. This function is idempotent.

    Processes spawned by multiprocessing also find the simulator, because they inherit sys.path.
    """
    from .. import nki

    sys.modules["nki"] = nki
    sys.modules.update(nki.MODULES)
    if _SPAWNED not in sys.path:
        sys.path.insert(min(1, len(sys.path)), _SPAWNED)  # after the script's folder, before installed packages
    if _OldDialect not in sys.meta_path:
        sys.meta_path.append(_OldDialect)


class _OldDialect:
    """An import hook that explains that `neuronxcc.nki` was removed, if no installed package provides it."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == "neuronxcc":
            raise ModuleNotFoundError(
                "neuronxcc.nki was removed in NKI 0.4; import nki, nki.language and nki.isa; "
                "`trninfer migrate FILE` rewrites kernels",
                name="neuronxcc",
            )

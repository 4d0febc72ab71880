"""`nki.collectives`: its names, so that kernels import; a call says that collectives are not simulated."""

from __future__ import annotations

from typing import Any

from .api import missing


class ReplicaGroup:
    """Groups of ranks that communicate (nki.collectives.ReplicaGroup)."""

    def __init__(self, groups: Any = None) -> None:
        self.groups = groups


def __getattr__(name: str) -> Any:
    return missing("nki.collectives", name)


__all__ = ["ReplicaGroup"]

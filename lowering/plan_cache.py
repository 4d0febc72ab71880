"""Cache plans on disk: the decisions about a launch, keyed by everything that they depend on.

Each plan is a file in the folder `plans` of the TRNINFER_CACHE folder if that is set, else in the user's cache folder
for trninfer. Files are written atomically, with a digest. If a file is damaged, unreadable or belongs to another
launch, the launch is planned again. A plan that cannot be written is silently dropped.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..models.regular_files import open_regular
from ..simulator.machine.atomic_file import replacing
from ..simulator.timing.constants import overrides
from ..version import __version__
from .cache_folder import user_cache
from .decisions import Decisions
from .graph.graph import Graph

_FOLDERS = ("kernels", "lowering", "simulator")  # folders of the source files on which plans depend
_LARGEST = 16 << 20  # maximum size of a plan in bytes


@dataclass(frozen=True)
class TuningRecord:
    """The decisions about a launch, and its predicted nanoseconds and instructions."""

    decisions: Decisions
    nanoseconds: float
    instructions: int

    def to_json(self) -> dict[str, Any]:
        """Return the record in a form that can be serialized as JSON."""
        return {
            "decisions": self.decisions.to_json(),
            "nanoseconds": self.nanoseconds,
            "instructions": self.instructions,
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> TuningRecord:
        """Return the record that `to_json` serialized. Raise TypeError, ValueError or KeyError for other data."""
        decisions = Decisions.from_json(data["decisions"])
        return TuningRecord(decisions, float(data["nanoseconds"]), int(data["instructions"]))


class PlanCache:
    """Plans by key, in memory and on disk. `folder`: the folder on disk; None to keep plans only in memory."""

    def __init__(self, folder: Path | None) -> None:
        self.records: dict[str, TuningRecord] = {}
        self._folder = folder

    def get(self, key: str) -> TuningRecord | None:
        """Return the plan for a key, or None if there is no readable plan."""
        if key not in self.records and self._folder is not None:
            with contextlib.suppress(Exception):  # the file may contain anything
                self.records[key] = _read(self._folder / f"{key}.json", key)
        return self.records.get(key)

    def put(self, key: str, record: TuningRecord) -> None:
        """Store a plan."""
        self.records[key] = record
        if self._folder is None:
            return
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            with replacing(self._folder / f"{key}.json") as file:
                plan = record.to_json()
                file.write(json.dumps({"sha256": _digest(key, plan), "plan": plan}).encode())


def _read(path: Path, key: str) -> TuningRecord:
    """Return the plan in a file.

    Raise OSError, ValueError, TypeError, KeyError or RecursionError if the file is invalid.
    """
    with open_regular(path) as file:
        data = json.loads(file.read(_LARGEST))
    if data["sha256"] != _digest(key, data["plan"]):
        raise ValueError("not the plan that was saved")
    return TuningRecord.from_json(data["plan"])


def _digest(key: str, plan: dict[str, Any]) -> str:
    return hashlib.sha256(f"{key} {json.dumps(plan, sort_keys=True)}".encode()).hexdigest()


def plan_folder() -> Path | None:
    """Return the folder of the plans on disk, or None if the user has none."""
    return user_cache("plans", "plans")


def key_of(graph: Graph, target: str, *settings: Any) -> str:
    """Return the key of a graph's launch on a target; `settings`: any other values that the plan depends on.

    Names of layers do not matter, only which nodes have the same name.
    """
    names: dict[str, str] = {}
    nodes = [
        (
            replace(node.operation, name=names.setdefault(node.name, str(len(names)))),
            node.before,
            node.memory,
            node.may_be_fp8,
            node.may_have_fp8_weights,
        )
        for node in graph.nodes
    ]
    material = (
        nodes,
        graph.image,
        graph.itemsize,
        graph.from_host,
        graph.is_whole,
        graph.outputs,
        target,
        settings,
        overrides(),
    )
    return hashlib.sha256(repr((__version__, _sources(), material)).encode()).hexdigest()


@lru_cache(maxsize=1)
def _sources() -> str:
    """Return a digest of the source files that plans depend on.

    Timestamps are not used, because they may coincide or lie in the future.
    """
    package = Path(__file__).resolve().parent.parent
    files = (
        Path(folder, name)
        for subpackage in _FOLDERS
        for folder, _, names in os.walk(package / subpackage)
        for name in names
        if name.endswith(".py")
    )
    return digest_of(sorted(files))


def digest_of(paths: Iterable[Path]) -> str:
    """Return a digest of the contents of files."""
    digest = hashlib.sha256()
    for path in paths:
        with open(path, "rb", buffering=0) as file:  # buffering takes longer than reading
            digest.update(hashlib.sha256(file.read()).digest())
    return digest.hexdigest()

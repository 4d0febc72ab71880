"""Statistics of a model since it was loaded, in the format of Triton's statistics extension.

Source: triton-inference-server/server, docs/protocol/extension_statistics.md.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from .workers import InputAnswer


class Statistics:
    """The numbers of requests, inputs and batches of one model, and the nanoseconds spent in each phase."""

    def __init__(self) -> None:
        self._last = 0  # time of the last inference, in milliseconds since 1970
        self._inputs = self._batches = 0
        self._parts = {
            name: [0, 0] for name in ("success", "fail", "queue", "compute_input", "compute_infer", "compute_output")
        }

    def request(self, answers: Sequence[object], seconds: float) -> None:
        """Count a request with its predictions, or the errors that replace them."""
        is_whole = all(isinstance(answer, InputAnswer) for answer in answers)
        self._add("success" if is_whole else "fail", 1, seconds)
        if is_whole:
            self._last = time.time_ns() // 1_000_000

    def batch(self, pool: str, size: int, waited: Sequence[float], seconds: float) -> None:
        """Count a batch processed by a pool ("decoder" or "worker")."""
        if pool == "decoder":
            self._add("compute_input", size, seconds)
            return
        self._inputs += size
        self._batches += 1
        self._add("queue", size, sum(waited))
        self._add("compute_infer", size, seconds)

    def _add(self, part: str, count: int, seconds: float) -> None:
        self._parts[part][0] += count
        self._parts[part][1] += round(seconds * 1e9)

    def to_dict(self, name: str, version: str) -> dict[str, Any]:
        """Return the statistics as an entry of `model_stats`."""
        return {
            "name": name,
            "version": version,
            "last_inference": self._last,
            "inference_count": self._inputs,
            "execution_count": self._batches,
            "inference_stats": {part: {"count": count, "ns": ns} for part, (count, ns) in self._parts.items()},
            "batch_stats": [],
        }

"""Scheduling and synchronisation of the ranks of collectives, each of which is a NeuronCore with separate memory.

Only one rank runs at any time; it runs until it must wait for other ranks. Ranks share only the data that they send
explicitly, so the order in which they run does not affect any value.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from .errors import NkiValidationError
from .rank_threads import StopRank, run_in_threads

MOST_RANKS = 8  # the number of NeuronCores on a Trainium2 chip (trainium2_arch.rst)

_T = TypeVar("_T")


class Contribution(NamedTuple):
    """One rank's contribution to a collective. All ranks of the group must pass equal `terms`."""

    terms: tuple[Any, ...]
    shown: str  # the collective and its source line, for error messages
    values: Any


class World:
    """Synchronisation of the ranks 0 to `size` - 1."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._changed = threading.Condition()  # held by the running rank
        self._meetings: dict[tuple[tuple[int, ...], int], dict[int, Contribution]] = {}
        self._counts: list[dict[tuple[int, ...], int]] = [{} for _ in range(size)]
        self._waits: dict[int, tuple[tuple[int, ...], int]] = {}  # the collective that each blocked rank is waiting for
        self._ended: set[int] = set()
        self._failure: BaseException | None = None

    def run(self, program: Callable[[int], _T]) -> list[_T]:
        """Run `program(rank)` on each rank, and raise the exception of the first rank that fails."""
        results: list[Any] = [None] * self.size

        def on(rank: int) -> None:
            with self._changed:
                try:
                    if self._failure is None:
                        results[rank] = program(rank)
                except StopRank:
                    pass
                except BaseException as error:
                    self._failure = self._failure or error
                self._ended.add(rank)
                self._changed.notify_all()

        run_in_threads(self.size, on)
        if self._failure is not None:
            raise self._failure
        return results

    def meet(self, rank: int, group: tuple[int, ...], given: Contribution) -> list[Any]:
        """Wait until every rank of the group has reached its n-th collective, and return their values in group order.

        Raises:
            NkiValidationError: if ranks arrive with different terms, or if an awaited rank never arrives.
        """
        count = self._counts[rank][group] = self._counts[rank].get(group, 0) + 1
        key = group, count
        meeting = self._meetings.setdefault(key, {})
        for other, brought in meeting.items():
            if brought.terms != given.terms:
                raise NkiValidationError(
                    f"rank {rank} calls {given.shown}, but rank {other} calls {brought.shown}: ranks of a group must "
                    "call the same collectives in the same order, with tensors of the same shapes and dtypes"
                )
        meeting[rank] = given
        self._waits[rank] = key
        self._changed.notify_all()
        while len(meeting) < len(group):
            self._check_arrivals(rank, group, meeting, given)
            self._changed.wait()
        del self._waits[rank]
        return [meeting[member].values for member in group]

    def _check_arrivals(
        self, rank: int, group: tuple[int, ...], meeting: dict[int, Contribution], given: Contribution
    ) -> None:
        """Raise an exception if another rank has failed, or if a rank that this rank waits for can never arrive."""
        if self._failure is not None:
            raise StopRank
        ended = [member for member in group if member in self._ended and member not in meeting]
        if ended:
            raise NkiValidationError(f"rank {rank} waits in {given.shown} for rank {ended[0]}, which has ended")
        blocked = {member for member, (ranks, n) in self._waits.items() if len(self._meetings[ranks, n]) < len(ranks)}
        if len(blocked | self._ended) == self.size:
            waiting = [
                f"rank {member} in {self._meetings[self._waits[member]][member].shown}" for member in sorted(blocked)
            ]
            raise NkiValidationError(f"deadlock: ranks wait for each other: {'; '.join(waiting)}")

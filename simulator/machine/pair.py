"""Two NeuronCores that form a logical core (LNC2): scheduling, shared memory, and synchronisation.

Only one core runs at any time, beginning with core 0, until it must wait for the other core. Runs are therefore
reproducible. On-chip memory and private HBM belong to one core. If both cores create a tensor in shared HBM at the same
point in the program, it is a single tensor (nki/get-started/about/lnc.rst of aws-neuron-sdk: both cores run the same
program).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from .errors import NkiValidationError
from .memory import Storage
from .rank_threads import StopRank, run_in_threads

CORES = 2  # number of physical cores per logical core with LNC2, on trn2 and trn3

_T = TypeVar("_T")


class Meeting(NamedTuple):
    """One core's side of a synchronisation. Both cores must pass equal `terms`."""

    terms: tuple[Any, ...]
    shown: str  # the instruction and its source line, for error messages
    instruction: int  # the index of the instruction in the core's program
    values: Any  # the value that the core sends, or None


class Pair:
    """Synchronisation of two cores."""

    def __init__(self) -> None:
        # pairs of instructions, one of core 0 and one of core 1, that wait for each other
        self.meetings: list[tuple[int, int]] = []
        self._changed = threading.Condition()
        self._turn = 0
        self._ended = [False] * CORES
        self._waiting: list[Meeting | None] = [None] * CORES
        self._answers: list[Meeting | None] = [None] * CORES
        self._failure: BaseException | None = None
        self._shared: dict[tuple[tuple[Any, ...], int], Storage] = {}
        self._made: list[dict[tuple[Any, ...], int]] = [{} for _ in range(CORES)]

    def run(self, program: Callable[[int], _T]) -> list[_T]:
        """Run `program(rank)` on each core, and raise the exception of the first core that fails."""
        results: list[Any] = [None] * CORES

        def on(rank: int) -> None:
            try:
                self._await_turn(rank)
                results[rank] = program(rank)
            except StopRank:
                pass
            except BaseException as error:
                self._failure = self._failure or error
            self._ended[rank] = True
            self._give_turn(rank)

        run_in_threads(CORES, on)
        if self._failure is not None:
            raise self._failure
        return results

    def shared(self, rank: int, place: tuple[Any, ...], make: Callable[[], Storage]) -> Storage:
        """Return the storage that both cores create at the same point in the program.

        The core that arrives first calls `make`. The n-th time that one core reaches this point corresponds to the n-th
        time that the other does.
        """
        count = self._made[rank][place] = self._made[rank].get(place, 0) + 1
        storage = self._shared.get((place, count))
        if storage is None:
            storage = self._shared[place, count] = make()
        return storage

    def meet(self, rank: int, mine: Meeting) -> Meeting:
        """Wait until the other core arrives with equal terms, and return its side of the synchronisation."""
        other = 1 - rank
        theirs = self._waiting[other]
        if theirs is not None:
            if theirs.terms != mine.terms:
                raise NkiValidationError(
                    f"core {other} waits at {theirs.shown} and core {rank} waits at {mine.shown}, so neither can "
                    "continue"
                )
            self._waiting[other] = None
            self._answers[other] = mine
            pair = (theirs.instruction, mine.instruction)
            self.meetings.append(pair if other == 0 else (pair[1], pair[0]))
            return theirs
        self._waiting[rank] = mine
        if not self._ended[other]:
            self._give_turn(rank)
            self._await_turn(rank)
        answer = self._answers[rank]
        if answer is None:
            raise NkiValidationError(
                f"core {rank} waits at {mine.shown}, but core {other} has ended without reaching it"
            )
        self._answers[rank] = None
        return answer

    def _give_turn(self, rank: int) -> None:
        with self._changed:
            self._turn = 1 - rank
            self._changed.notify_all()

    def _await_turn(self, rank: int) -> None:
        with self._changed:
            while self._turn != rank and not self._ended[1 - rank]:
                self._changed.wait()
        if self._failure is not None:
            raise StopRank

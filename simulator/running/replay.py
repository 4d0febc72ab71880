"""Replay launches on other arrays: recompute the values of all instructions without running the kernel again.

Unless a kernel reads registers, its instructions depend on the shapes and dtypes of its arguments, but never on their
values. A launch on other arrays of the same shapes therefore performs the same NumPy operations: a `Recording` stores
them while the kernel runs, and a `Replay` repeats them on new arguments without performing checks, creating views or
computing the timing. Tiles whose lifetimes do not overlap share memory, including across replays. Values that depend
only on constant arguments, such as a network's weights, are computed once (`fixed_tiles`).

Launches that are not determined by shapes are not replayed: launches with instructions that compute outside of
`NeuronCore.perform`, with run-time addresses or loops, or with tensors at explicit addresses, and launches on two
cores.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..machine.dtypes import Array, hold, release, rounds
from ..machine.memory import Storage
from ..tensors.strided import StridedMemory

MAX_FIXED_BYTES = 1 << 27  # maximum bytes of tiles that a launch keeps between replays
MAX_ALL_FIXED_BYTES = 1 << 28  # limit for the sum over all replays
MAX_STEPS = 20_000  # maximum steps of a recording; each takes about 3 KB including its views
MAX_REMEMBERED_STEPS = 40_000  # maximum total number of steps of all replays
MAX_LAUNCHES = 1_000  # maximum number of launches remembered
MAX_BYTES = 5 << 28  # maximum bytes of all tiles of a launch, which are kept during recording; 1.1 GB for VGG-11

Step = tuple[Callable[..., None], tuple[Any, ...]]
Buffers = dict[tuple[np.dtype[Any], int], list[Array]]  # free memory, keyed by dtype and number of elements


class Recording:
    """The operations of a launch, recorded while it runs."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.performed = 0  # number of instructions recorded
        self.repeatable = True
        self.arguments: list[StridedMemory] = []
        self.fixed: list[bool] = []  # True for each argument that never changes
        self.outputs: list[Any] = []  # results of the kernel
        self._bytes = 0

    def spoil(self) -> None:
        """Stop recording and free the steps, because the launch depends on more than shapes or is too large."""
        self.repeatable = False
        self.steps.clear()

    def allocated(self, size: int, is_placed: bool) -> None:
        """Record the allocation of a tile of `size` bytes. `is_placed`: whether the kernel chose its address."""
        self._bytes += size
        if is_placed or self._bytes > MAX_BYTES:
            self.spoil()

    def finish(self, arguments: Sequence[tuple[Any, StridedMemory]], returned: Any) -> None:
        """Record the arrays and tensors of the arguments, and the results of the kernel."""
        self.arguments = [tensor for _, tensor in arguments]
        self.fixed = [never_changes(array) for array, _ in arguments]
        self.outputs = list(returned) if isinstance(returned, (tuple, list)) else [returned]

    def note(self, compute: Callable[..., None], operands: tuple[Any, ...]) -> None:
        """Record an operation, which writes to its first operand."""
        if len(self.steps) >= MAX_STEPS:
            self.spoil()
        if self.repeatable:
            self.steps.append((compute, operands))

    def filled(self, storage: Storage) -> None:
        """Record that memory is filled with the value for uninitialised elements."""
        self.note(fill, (storage,))

    def replay(self, issued: int, registers: dict[str, Array], buffers: Buffers) -> Replay | None:
        """Return a replay of the launch, which issued `issued` instructions. Return None if it cannot be replayed."""
        is_recorded = self.performed == issued and not set(registers) - {"scalar"}
        tensors = all(isinstance(output, StridedMemory) for output in self.outputs)
        if not (self.repeatable and is_recorded and tensors) or any(_refilled_as_bits(step) for step in self.steps):
            return None
        return Replay(self, registers, buffers)


def fill(storage: Storage) -> None:
    assert storage.array is not None
    storage.array.fill(storage.dtype.fill)


def _refilled_as_bits(step: Step) -> bool:
    """Return True if a step marks memory as uninitialised that is later viewed as bits, so that the fill value is
    unknown."""
    compute, operands = step
    return compute is fill and operands[0].bits


class Replay:
    """A launch that can be computed again with arguments of the same shapes and dtypes."""

    def __init__(self, recording: Recording, registers: dict[str, Array], buffers: Buffers) -> None:
        self._arguments = tuple(recording.arguments)
        self._outputs: tuple[StridedMemory, ...] = tuple(recording.outputs)
        self._registers = registers
        self.steps = len(recording.steps)
        inputs = {id(tensor.storage) for tensor in self._arguments}
        self._fixed, self.fixed_bytes = self._fixed_storages(recording, inputs)
        self._once = [step for step in recording.steps if id(_written(step)) in self._fixed]
        self._steps = [step for step in recording.steps if id(_written(step)) not in self._fixed]
        only_once = self._fixed.difference(id(storage) for step in self._steps for storage in _storages(step[1]))
        self._only_once = [id(tensor.storage) in only_once for tensor in self._arguments]
        self._known: tuple[Any, ...] | None = None  # the fixed arguments for which `_once` was computed
        outputs = {id(tensor.storage) for tensor in self._outputs}
        _share_memory(self._steps, inputs | self._fixed, outputs, buffers)
        views = {id(view): view for _, operands in recording.steps for view in views_of(operands)}
        self._views = [*self._arguments, *(view for view in views.values() if id(view.storage) in inputs)]
        self._let_go()

    def __call__(self, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """Return the outputs for arguments of the recorded shapes and dtypes."""
        again = self._knows(arrays)
        for tensor, array, only_once in zip(self._arguments, arrays, self._only_once, strict=True):
            if not (again and only_once):
                tensor.storage.array = hold(np.ascontiguousarray(array), tensor._dtype).reshape(-1)
        if not again:
            self._begin(arrays)
        for register in self._registers.values():
            register.fill(np.nan)
        for compute, operands in self._steps:
            compute(*operands)
        outputs = tuple([release(tensor.values, tensor._dtype) for tensor in self._outputs])
        self._let_go()
        return outputs

    def _fixed_storages(self, recording: Recording, given: set[int]) -> tuple[set[int], int]:
        """Return the ids of the storages that never change, and their bytes, excluding arguments.

        If there are too many bytes, return no storages.
        """
        changing = {id(tensor.storage) for tensor, fixed in zip(self._arguments, recording.fixed) if not fixed}
        tiles = fixed_tiles(recording.steps, changing)
        size = sum(size for key, size in tiles.items() if key not in given)
        return (set(tiles), size) if size <= MAX_FIXED_BYTES else (set(), 0)

    def _fixed_of(self, arrays: Sequence[Array]) -> list[Array]:
        return [array for tensor, array in zip(self._arguments, arrays) if id(tensor.storage) in self._fixed]

    def _knows(self, arrays: Sequence[Array]) -> bool:
        """Return True if the fixed arguments are the same as in the previous call."""
        if self._known is None or self._known[0] != rounds():
            return False
        return all(
            known() is array and never_changes(array) for known, array in zip(self._known[1:], self._fixed_of(arrays))
        )

    def _begin(self, arrays: Sequence[Array]) -> None:
        """Compute everything that depends only on the fixed arguments."""
        for compute, operands in self._once:
            compute(*operands)
        fixed = self._fixed_of(arrays)
        self._known = (rounds(), *map(weakref.ref, fixed)) if all(map(never_changes, fixed)) else None

    def _let_go(self) -> None:
        """Drop references to the caller's arrays."""
        for view in self._views:
            view.storage.array = view._values = view._source = None


def never_changes(array: Array) -> bool:
    """Return True if an array cannot be modified, that is, if it is read-only and owns its memory."""
    return not array.flags.writeable and array.flags.owndata


def fixed_tiles(steps: Sequence[Step], changing: set[int]) -> dict[int, int]:
    """Return the ids and sizes in bytes of the storages whose values do not depend on the storages in `changing`.

    These storages receive the same values in every replay.
    """
    sizes = {id(s): s.size * s.dtype.held.itemsize for _, operands in steps for s in _storages(operands)}
    sources: defaultdict[int, set[int]] = defaultdict(set)  # the storages from which each storage is computed
    varying = set(changing)
    for step in steps:
        key, operands = id(_written(step)), step[1][1:]
        sources[key].update(id(storage) for storage in _storages(operands))
        if any(isinstance(operand, np.ndarray) for operand in operands):
            varying.add(key)
    before = -1
    while before != len(varying):
        before = len(varying)
        varying |= {key for key, read in sources.items() if not varying.isdisjoint(read)}
    return {key: size for key, size in sizes.items() if key not in varying}


def _written(step: Step) -> Storage:
    """Return the storage that a step writes, which is the storage of its first operand."""
    first = step[1][0]
    return first.storage if isinstance(first, StridedMemory) else first


def _lifetimes(
    steps: list[Step], given: set[int], kept: set[int]
) -> tuple[dict[int, list[Storage]], dict[int, list[Storage]]]:
    """Return the storages that each step uses first, and those that it uses last.

    An additional step at the end uses the `kept` storages last.
    """
    uses = [(storage, number) for number, (_, operands) in enumerate(steps) for storage in _storages(operands)]
    storages = {id(storage): storage for storage, _ in uses if id(storage) not in given}
    last = {id(storage): len(steps) if id(storage) in kept else number for storage, number in uses}
    first = {id(storage): number for storage, number in reversed(uses)}
    begins: defaultdict[int, list[Storage]] = defaultdict(list)
    ends: defaultdict[int, list[Storage]] = defaultdict(list)
    for key, storage in storages.items():
        begins[first[key]].append(storage)
        ends[last[key]].append(storage)
    return begins, ends


def _share_memory(steps: list[Step], given: set[int], kept: set[int], buffers: Buffers) -> None:
    """Assign memory from `buffers` to each storage for as long as steps use it, and to `kept` storages until the
    end."""
    begins, ends = _lifetimes(steps, given, kept)
    for number in sorted({*begins, *ends}):
        for storage in begins.get(number, ()):
            assert storage.array is not None
            size = storage.array.dtype, storage.array.size
            free = buffers.get(size)
            storage.array = free.pop() if free else storage.array
        for storage in ends.get(number, ()):
            assert storage.array is not None
            buffers.setdefault((storage.array.dtype, storage.array.size), []).append(storage.array)


def _storages(operands: Any) -> Iterator[Storage]:
    """Yield the storages of a step's operands."""
    if operands and isinstance(operands[0], Storage):
        yield operands[0]
    for view in views_of(operands):
        yield view.storage


def views_of(operands: Any) -> Iterator[StridedMemory]:
    """Yield the tensors among the operands of a step, including tensors in tuples."""
    for operand in operands:
        if isinstance(operand, StridedMemory):
            yield operand
        elif isinstance(operand, tuple):
            yield from views_of(operand)


@dataclass(frozen=True)
class ReplayableLaunch:
    """A launch that can be replayed, and its prediction."""

    replay: Replay
    prediction: Any


class Replays:
    """The launches seen so far, and their replays. The key of a launch contains everything on which it depends.

    The oldest launches are dropped first.
    """

    def __init__(self) -> None:
        self._seen: OrderedDict[Any, ReplayableLaunch | bool] = OrderedDict()  # True: seen once; False: not replayable
        self._buffers: Buffers = {}
        self._lock = threading.Lock()  # replays share memory, so only one can run at any time

    def seen(self, key: Any) -> ReplayableLaunch | bool:
        """Return the launch to replay.

        Otherwise, return True if the launch was seen before and should be recorded, and False if not.
        """
        if key is None:
            return False
        known = self._seen.get(key)
        if known is None:
            self._seen[key] = True
            if len(self._seen) > MAX_LAUNCHES:
                self._seen.popitem(last=False)
            return False
        self._seen.move_to_end(key)
        return known

    def keep(self, key: Any, replay: Replay | None, prediction: Any) -> None:
        """Store the result of recording a launch."""
        self._seen[key] = False if replay is None else ReplayableLaunch(replay, prediction)
        while len(self._seen) > 1 and self._full():
            self._seen.popitem(last=False)

    def make(self, recording: Recording, issued: int, registers: dict[str, Array]) -> Replay | None:
        """Return the replay of a recording, or None if it cannot be replayed."""
        with self._lock:
            return recording.replay(issued, registers, self._buffers)

    def run(self, launch: ReplayableLaunch, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """Replay a launch with other arrays and return its outputs."""
        with self._lock, np.errstate(all="ignore"):
            return launch.replay(arrays)

    def begin_anew(self) -> None:
        """Reset the cache in a forked process, since a thread of the parent may have been replaying a launch."""
        self._lock = threading.Lock()
        self.clear()

    def clear(self) -> None:
        """Drop all launches and free their memory."""
        self._seen.clear()
        self._buffers.clear()

    def _full(self) -> bool:
        replays = [launch.replay for launch in self._seen.values() if isinstance(launch, ReplayableLaunch)]
        steps, fixed = sum(replay.steps for replay in replays), sum(replay.fixed_bytes for replay in replays)
        return steps > MAX_REMEMBERED_STEPS or fixed > MAX_ALL_FIXED_BYTES

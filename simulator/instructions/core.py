"""The simulated NeuronCore that runs a kernel: it allocates memory and executes the instructions.

Instructions are executed eagerly, in program order, on NumPy arrays, and recorded in `program` for the timing model.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from types import CodeType
from typing import TYPE_CHECKING, Any

import numpy as np

from ..machine.chip import Target
from ..machine.configs import NO_CONFIGS
from ..machine.dtypes import Array, lookup
from ..machine.errors import NkiValidationError, UndefinedOnChipWarning, ours
from ..machine.instruction import DECLARATIONS, Access, Allocation, Cost, Instruction, SettledCall, Transfer, engine
from ..machine.memory import PSUM, SBUF, Arena, MemoryRegion, Storage, allocate, place
from ..machine.pair import Pair
from ..machine.psum_writes import LastWriter
from ..machine.settings import TOO_MANY, max_instructions
from ..machine.world import World
from ..tensors.tensor import IndirectTensor, NkiTensor
from ..tensors.tensor_indirection import after_registers, check, with_indices
from ..tensors.tensor_operators import naming_what_tensors_lack
from ..tensors.views import integers
from ..timing.capacity import Memory
from ..timing.constants import Machine
from ..timing.costs import NO_TIME, Costs
from .loop_bodies import refuse_ended
from .old_calls import explaining_old_calls
from .overlap import clobbers
from .reported import check_name, check_reshape, check_width

if TYPE_CHECKING:
    from ..machine.instruction import Options
    from ..running.replay import Recording

MAX_SETTLED = 10_000  # maximum number of cached results of declarations

_TENSOR = engine.tensor

NkiTensor.check_reshape = staticmethod(check_reshape)


class NeuronCore:
    """The state of one run of a kernel. If `functional` is False, only shapes are tracked; no values are computed."""

    def __init__(self, target: Target, functional: bool = True, dge: bool = True) -> None:
        self.target = target
        self.functional = functional
        self.dge = dge and target.generation >= 3  # hardware DGE: NeuronCore-v3 and newer (trainium2_arch.rst)
        self.costs = Costs(target)
        self.program: list[Instruction] = []
        self.max_instructions = max_instructions()
        self.allocations: list[Allocation] = []
        self.ordered = False  # inside `nl.no_reorder()`
        self.loops: list[tuple[tuple[str, int], int]] = []  # source line and trip count of each device loop
        self.looping = 0  # depth of nested device loops
        self.ended: list[list[int]] = []  # [first, end) of the allocations in each loop body, which are freed with it
        self.named: set[str] = set()  # names of tensors specified by the kernel
        self._fence: Instruction | None = None  # the instruction for which all later instructions wait
        self._fenced = 0  # number of instructions before the fence
        self.memory = Memory(0, 0)  # peak memory use, set after the program has run
        self.programs: int | None = None  # number of programs in the launch grid, or None without a grid
        self.rank = 0  # the index of this program
        self.pair: Pair | None = None  # connects the two cores of a launch
        self.world: World | None = None  # all ranks of a launch on several ranks
        self.world_rank = 0
        self.sanitizer: Any = None  # receives every instruction, if the caller enabled a sanitizer
        self.numeric: Any = None  # receives every instruction and the values it stores, if numeric checks are enabled
        self.configs = NO_CONFIGS  # configuration of the running kernel
        self.partner: NeuronCore | None = None  # core 1, if this is core 0
        self.registers: dict[str, Array] = {}  # engine state that persists between instructions
        self.last_accumulation: Instruction | None = None  # last user of the Scalar Engine's accumulators
        self.idled = ""  # instruction that may have changed the Vector Engine's accumulators since their reset
        self.last_use: dict[str, Instruction] = {}  # last user of implicitly shared engine state
        self.recording: Recording | None = None  # records the computation of values if it will be replayed
        self._arenas: dict[MemoryRegion, Arena] = {}
        self._warned: set[tuple[tuple[str, int], str]] = set()
        self._heard: list[tuple[str, type[Warning]]] | None = None  # warnings collected while a declaration runs
        self._scratch: dict[tuple[int, int], Array] = {}
        self._settled = _settled_before(target, self.costs.machine, self.dge)
        self._settled_with_warnings: dict[Any, tuple[SettledCall, list[tuple[str, type[Warning]]]]] = {}
        # Each key is the id of a code object, because hashing a code object is slow. Each value is the code object, its
        # line numbers, and whether it is part of the simulator.
        self._lines: dict[int, tuple[CodeType, dict[int, tuple[str, int]], bool]] = {}

    def ndarray(
        self,
        shape: tuple[int, ...],
        dtype: object,
        region: MemoryRegion,
        name: str = "",
        address: tuple[int, int] | None = None,
        argument: bool = False,
    ) -> NkiTensor:
        """Allocate a tensor. Raise NkiValidationError or CapacityError if the hardware does not allow it."""
        dtype_info, shape, line = lookup(dtype), tuple(shape), self._line()
        if name and not argument:
            check_name(self, name)
        if shape == (1,) and (region is SBUF or region is PSUM):
            shape = (1, 1)  # on-chip tensors have at least two dimensions (see the examples of register_load)
        make = partial(allocate, region, dtype_info, shape, name=name, line=line, target=self.target)
        if self.pair is not None and region is MemoryRegion.shared_hbm and not argument:
            storage = self.pair.shared(self.rank, (line, shape, dtype_info.name, name), make)
            if storage.owner is not None:
                return NkiTensor(storage.shape, dtype_info, storage)
        else:
            storage = make()
        if self.recording is not None:
            self.recording.allocated(storage.size * storage.dtype.itemsize, address is not None)
        if address is not None:
            self._place(storage, address)
        else:
            storage.owner = self._note(region, storage.row_bytes, storage.identity, line, argument)
            storage.core = self
            if storage.on_chip:
                check_width(self, storage)
        return NkiTensor(storage.shape, dtype_info, storage)

    def _note(
        self, region: MemoryRegion, row_bytes: int, identity: Any, line: tuple[str, int], argument: bool = False
    ) -> Allocation:
        allocation = Allocation(len(self.allocations), region, row_bytes, identity, line, argument)
        self.allocations.append(allocation)
        return allocation

    def _arena(self, region: MemoryRegion) -> Arena:
        if region not in self._arenas:
            row_bytes = self.target.usable_sbuf_bytes if region is SBUF else self.target.psum_bytes
            owner = self._note(region, 0, ("placed by address", region, (), ""), ("", 0))
            owner.placed = True
            self._arenas[region] = Arena(row_bytes, owner, functional=self.functional)
        return self._arenas[region]

    def scratch(self, rows: int, columns: int) -> Array:
        """Return a float32 buffer [rows, columns] that is valid until the next call."""
        buffer = self._scratch.get((rows, columns))
        if buffer is None:
            buffer = self._scratch[rows, columns] = np.empty((rows, columns), np.float32)
        return buffer

    def _place(self, storage: Storage, address: tuple[int, int]) -> None:
        """Assign an explicit address in SBUF or PSUM to a storage."""
        if not storage.on_chip:
            raise NkiValidationError(f"ndarray {storage.label}: only on-chip tensors accept an address")
        place(storage, integers(address, f"ndarray {storage.label}: address"), self._arena(storage.region))

    def issue(
        self,
        op: str,
        unit: engine,
        writes: tuple[NkiTensor, ...],
        reads: tuple[NkiTensor, ...],
        cost: Cost = NO_TIME,
        name: str | None = None,
        flops: int = 0,
        hbm_bytes: int = 0,
        dma: Transfer | None = None,
        options: Options = (),
    ) -> Instruction:
        """Record an instruction. The caller is responsible for checking it and for computing its values."""
        program = self.program
        if self.ended:
            refuse_ended(op, writes + reads, self.ended)
        indirect = [tensor for tensor in writes + reads if type(tensor) is not NkiTensor]
        if indirect:
            reads = self._admit_indirect(op, unit, writes, reads)
        for tensor in writes:
            self._note_write(op, unit, tensor, reads)
        instruction = Instruction(
            index=len(program),
            op=op,
            engine=unit,
            writes=_accesses(writes),
            reads=_accesses(reads),
            cost=cost,
            dma=dma,
            flops=flops,
            hbm_bytes=hbm_bytes,
            line=self._line(),
            name=name,
            ordered=self.ordered,
            options=options,
        )
        if self._fence is not None:
            instruction.after = (self._fence,)
        if len(program) >= self.max_instructions:
            raise NkiValidationError(TOO_MANY.format(self.max_instructions))
        program.append(instruction)
        if self.sanitizer is not None:
            self.sanitizer.see(self.rank, instruction, writes, reads)
        if self.numeric is not None:
            self.numeric.see(instruction, writes, reads)
        if indirect:
            after_registers(instruction, indirect)
        return instruction

    def _note_write(self, op: str, unit: engine, written: NkiTensor, reads: tuple[NkiTensor, ...]) -> None:
        """Record a write to PSUM, and report elements that are overwritten before they are read."""
        storage = written.storage
        if storage.region is PSUM and unit is not _TENSOR and type(written) is NkiTensor:
            storage.note_write(written, by_matmul=False)
        for read in reads:
            if read.storage is storage and read is not written and clobbers(op, written, read):
                overlap = f"{op}: dst {written.label} overlaps {read.label}"
                why = f"{overlap}, and overwrites elements of it before they are read"
                self.warn(why)
                if self.sanitizer is not None:
                    self.sanitizer.clobbers(self._line(), written, why)

    def _admit_indirect(
        self, op: str, unit: engine, writes: tuple[NkiTensor, ...], reads: tuple[NkiTensor, ...]
    ) -> tuple[NkiTensor, ...]:
        """Check accesses through registers and index tiles. Return `reads` and the tiles that contain the indices."""
        if self.recording is not None:
            self.recording.spoil()
        check(self, op, unit, writes, reads)
        for tensor in writes if unit is not _TENSOR else ():
            if isinstance(tensor, IndirectTensor) and tensor.storage.region is PSUM:
                for part in tensor.parts(self.functional):
                    tensor.storage.note_write(part, by_matmul=False)
        return with_indices(writes, reads)

    def fence(self, op: str) -> None:
        """Issue a fence: all later instructions wait until all earlier ones are done."""
        fence = self.issue(op, engine.sync, (), (), self.costs.register())
        fence.depends_on(*self.program[self._fenced : -1])
        self._fence, self._fenced = fence, len(self.program)

    def perform(self, compute: Callable[..., None], *operands: Any) -> None:
        """Call compute(*operands), which computes the values of the last issued instruction from the operands only.

        The first operand is the tensor to write. All tensors to read must also be operands, possibly nested in tuples.
        Arrays may be scratch space, engine state, or constants.
        """
        if self.functional:
            with np.errstate(all="ignore"):  # infinity and NaN are ordinary values, as on the chip
                compute(*operands)
            if self.recording is not None:
                self.recording.performed += 1
                self.recording.note(compute, operands)

    def not_begun(self, dst: NkiTensor, found: LastWriter) -> None:
        """Handle a matmul that accumulates into a tile in which some elements were not last written by a matmul."""
        if self.sanitizer is not None:
            self.sanitizer.accumulates(self._line(), dst, found)

    def resumed(self, dst: NkiTensor) -> None:
        """Handle a matmul that accumulates into a tile last written by matmuls."""
        if self.sanitizer is not None:
            self.sanitizer.resumes(self._line(), dst)

    def warn(self, message: str, category: type[Warning] = UndefinedOnChipWarning) -> None:
        """Issue a warning, by default about undefined behaviour on the chip, once per line of the kernel."""
        if self._heard is not None:
            self._heard.append((message, category))
        line = self._line()
        if (line, message) not in self._warned:
            self._warned.add((line, message))
            warnings.warn_explicit(message, category, *line)

    def warner(self) -> Callable[[str], None]:
        """Return a function that warns about the current line of the kernel while values are computed or replayed.

        It warns at most once, regardless of the message.
        """
        line, warned = self._line(), self._warned

        def warn_once(message: str) -> None:
            if (line, "") not in warned:
                warned.add((line, ""))
                warnings.warn_explicit(message, UndefinedOnChipWarning, *line)

        return warn_once

    def settle(self, op: str, *operands: Any) -> SettledCall:
        """Check the operands of an instruction against its declaration, and return its engine and its cost.

        The result is cached, because it depends only on the shapes and layouts of tensors and on the other operands,
        never on addresses or values. Warnings are repeated for other lines of the kernel.
        """
        key: list[Any] = [op]
        for operand in operands:
            kind = type(operand)
            if kind is NkiTensor:
                key.append(operand._form or operand.form)
            elif isinstance(operand, NkiTensor):  # has a run-time address, or is out of bounds
                return DECLARATIONS[op](self, *operands)
            else:
                key.append(kind)
                key.append(operand)
        known = tuple(key)
        try:
            settled = self._settled.get(known)
        except TypeError:  # an operand is not hashable, so the declaration rejects it
            return DECLARATIONS[op](self, *operands)
        return self._settle_first(known, operands) if settled is None else settled

    def _settle_first(self, known: tuple[Any, ...], operands: tuple[Any, ...]) -> SettledCall:
        """Check a call with its declaration for the first time, or repeat its warnings, which contain tensor names."""
        key = known, tuple([operand.name for operand in operands if type(operand) is NkiTensor])
        warned = self._settled_with_warnings.get(key)
        if warned is not None:
            for message, category in warned[1]:
                self.warn(message, category)
            return warned[0]
        heard = self._heard = []
        try:
            settled: SettledCall = DECLARATIONS[known[0]](self, *operands)
        finally:
            self._heard = None
        if heard:
            self._settled_with_warnings[key] = settled, heard
        else:
            if len(self._settled) >= MAX_SETTLED:
                self._settled.clear()
            self._settled[known] = settled
        return settled

    def _line(self) -> tuple[str, int]:
        """Return the file and line of the kernel code that called into the simulator."""
        frame: Any = sys._getframe(2)
        code = frame.f_code
        while True:
            lines = self._lines.get(id(code))
            if lines is None:
                lines = self._lines[id(code)] = code, {}, ours(code.co_filename)
            if not lines[2] or frame.f_back is None:
                break
            frame = frame.f_back
            code = frame.f_code
        line = lines[1].get(frame.f_lasti)
        if line is None:
            line = lines[1][frame.f_lasti] = code.co_filename, frame.f_lineno
        return line

    def line_of_kernel(self) -> tuple[str, int]:
        """Return the file and line of the kernel code that called into the simulator."""
        return self._line()

    def share(self, state: str, instruction: Instruction) -> None:
        """Make an instruction depend on the last user of shared engine state, to preserve the program order."""
        previous = self.last_use.get(state)
        if previous is not None:
            instruction.depends_on(previous)
        self.last_use[state] = instruction


@lru_cache(maxsize=16)
def _settled_before(target: Target, machine: Machine, dge: bool) -> dict[tuple[Any, ...], SettledCall]:
    """Return the cache of declaration results, shared by all launches on the same kind of core."""
    return {}


def _accesses(tensors: tuple[NkiTensor, ...]) -> tuple[Access, ...]:
    """Return the accesses of an instruction, without creating a list in the common case of one or two operands."""
    if len(tensors) == 1:
        first = tensors[0]
        return (first._access or first.access,)
    if len(tensors) == 2:
        first, second = tensors
        return first._access or first.access, second._access or second.access
    return tuple([tensor._access or tensor.access for tensor in tensors])


_state = threading.local()


def active(what: str = "an NKI instruction") -> NeuronCore:
    """Return the NeuronCore of the running kernel."""
    core: NeuronCore | None = getattr(_state, "core", None)
    if core is None:
        raise NkiValidationError(f"{what} can only be called inside a kernel (see nki.simulate, simulator.run)")
    return core


def is_active() -> bool:
    """Return True if a kernel is running in this thread."""
    return getattr(_state, "core", None) is not None


@contextmanager
def running(core: NeuronCore) -> Iterator[NeuronCore]:
    """Make `core` the active core, which executes instructions, until the end of the block."""
    previous = getattr(_state, "core", None)
    _state.core = core
    try:
        with naming_what_tensors_lack(), explaining_old_calls():
            yield core
    finally:
        _state.core = previous

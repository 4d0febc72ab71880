"""Costs of instructions on their engines: the issue interval and the latency, computed from the target's constants.

`interval` is the time until the engine can start its next instruction, and `latency` is the time until the result can
be read, both in nanoseconds and with the Tensor Engine at the full clock rate. `cold` is the interval of a Tensor
Engine instruction at half the clock rate. Instructions declare their cost function and operands; all constants are
defined in constants/.
"""

from __future__ import annotations

from typing import Any

from ..machine.chip import STATIONARY_COLUMNS, Target
from ..machine.dtypes import DType
from ..machine.instruction import Cost, engine
from ..machine.memory import PSUM
from .constants import machine

NO_TIME = Cost(0.0, 0.0)  # the cost of a DMA, whose time is determined by its `Transfer`


class Costs:
    """Instruction costs of one target. The argument `cycles` excludes fixed overheads, which the methods add."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.generation = target.generation
        m = self.machine = machine(target.name)
        self._vector_gap = m.vector_gap_cycles / target.vector_ghz
        self._vector_fill = m.vector_fill_cycles / target.vector_ghz

    def vector(self, cycles: float) -> Cost:
        """Return the cost of a Vector Engine instruction that streams for `cycles`."""
        busy = cycles / self.target.vector_ghz
        return Cost(busy + self._vector_gap, busy + self._vector_fill)

    def scalar(self, cycles: float, src: Any) -> Cost:
        """Return the cost of a Scalar Engine instruction without a lookup table that streams `src` for `cycles`."""
        m, busy = self.machine, cycles / self.target.scalar_ghz
        in_psum = src.storage.region is PSUM
        gap = m.scalar_psum_gap_cycles if in_psum else m.scalar_gap_cycles
        fill = m.scalar_copy_psum_fill_cycles if in_psum else m.scalar_copy_fill_cycles
        return Cost(busy + gap / self.target.scalar_ghz, busy + fill / self.target.scalar_ghz)

    def activation(self, data: Any, table: str, unit: engine = engine.scalar) -> Cost:
        """Return the cost of an elementwise function that is looked up in `table` ("" for none). A bias is always read.

        On the GpSimd Engine (NeuronCore-v4), for which no time is published, one pass over the data is assumed.
        """
        if unit is engine.gpsimd:
            return self.gpsimd(data.free_size)
        cost = self.scalar(data.free_size, data)
        if not table:
            return cost
        m, busy = self.machine, data.free_size / self.target.scalar_ghz
        fill = m.scalar_psum_fill_cycles if data.storage.region is PSUM else m.scalar_fill_cycles
        latency = busy + fill / self.target.scalar_ghz
        interval = cost.interval + m.scalar_operand_gap_cycles / self.target.scalar_ghz
        return Cost(min(interval, latency), latency, table=table)

    def accumulator_read(self) -> Cost:
        """Return the cost of reading the Scalar Engine's accumulators, one number per partition."""
        return Cost(
            self.machine.scalar_accumulator_cycles / self.target.scalar_ghz, self.machine.scalar_accumulator_fill_ns
        )

    def gpsimd(self, cycles: float) -> Cost:
        """Return the cost of a GpSimd Engine instruction that streams for `cycles`."""
        busy = cycles / self.target.gpsimd_ghz
        return Cost(
            busy + self.machine.gpsimd_gap_cycles / self.target.gpsimd_ghz,
            busy + self.machine.gpsimd_fill_cycles / self.target.gpsimd_ghz,
        )

    def register(self) -> Cost:
        """Return the cost of setting, loading or storing a register."""
        return Cost(self.machine.register_ns, self.machine.register_ns)

    def barrier(self) -> Cost:
        """Return the cost of a barrier between the cores of a logical core."""
        return Cost(self.machine.barrier_ns, self.machine.barrier_ns)

    def one_pass(self, unit: engine, tensor: Any) -> Cost:
        """Return the cost of processing `tensor` at one element per cycle on the Vector or GpSimd Engine.

        This cost is also assumed for instructions without published times.
        """
        return self.vector(tensor.free_size) if unit is engine.vector else self.gpsimd(tensor.free_size)

    def memset(self, unit: engine, dst: Any) -> Cost:
        """Return the cost of filling `dst` with one value on the Vector or GpSimd Engine."""
        if unit is not engine.vector:
            return self.gpsimd(dst.free_size)
        busy, m = dst.free_size / self.target.vector_ghz, self.machine
        interval = busy + m.memset_gap_cycles / self.target.vector_ghz
        return Cost(interval, max(interval, m.memset_fill_cycles / self.target.vector_ghz))

    def copy(self, unit: engine, dst: Any, src: Any) -> Cost:
        """Return the cost of tensor_copy on one of the three engines that support it."""
        count = dst.free_size
        if unit is engine.vector:
            return self.vector(count * self._copy_pace(dst, src))
        if unit is engine.gpsimd:
            return self.gpsimd(count)
        m, pace = self.machine, self._scalar_pace(dst, src)
        if self._wide(src):
            pace = m.scalar_strided_read_pace
        if self._wide(dst) and dst._dtype.itemsize == 2:
            pace = m.scalar_narrow_write_pace
        return self.scalar(count * pace, src)

    def _scalar_pace(self, dst: Any, src: Any) -> float:
        """Return the cycles per element of an operation that NeuronCore-v4's Scalar Engine runs twice as fast on 16-bit
        data (A3)."""
        double = self.generation >= 4 and dst._dtype.itemsize == 2 == src._dtype.itemsize
        return self.machine.scalar_double_pace if double else 1.0

    def copy_elsewhere(self, dst: Any, src: Any) -> tuple[tuple[engine, Cost], ...]:
        """Return the alternative engines, with costs, for a copy for which the kernel specifies no engine.

        On trn2 and later, the alternative is the Scalar Engine. Published profiles never show such copies on GpSimd.
        """
        return ((engine.scalar, self.copy(engine.scalar, dst, src)),) if self.generation > 2 else ()

    def tensor_scalar(self, unit: engine, dst: Any, data: Any, operands: int) -> Cost:
        """Return the cost of tensor_scalar on the Vector, Scalar or GpSimd Engine.

        `operands` is the number of operands that are columns with one value per partition; the other operands are
        numbers.
        """
        if unit is engine.gpsimd:
            return self.gpsimd(dst.free_size)
        m = self.machine
        if unit is engine.vector:
            busy = dst.free_size * self._copy_pace(dst, data) / self.target.vector_ghz
            if not operands or self.generation == 2:
                return Cost(busy + self._vector_gap, busy + self._vector_fill)
            gap, fill, ghz = m.vector_operand_gap_cycles, m.vector_operand_fill_cycles, self.target.vector_ghz
        else:
            if not operands or self.generation == 2:  # numbers are passed as scale and bias operands
                cost = self.activation(data, "any")._replace(table="")
                spared = dst.free_size * (1 - self._scalar_pace(dst, data)) / self.target.scalar_ghz
                return cost._replace(interval=cost.interval - spared, latency=cost.latency - spared)
            busy = dst.free_size * self._scalar_pace(dst, data) / self.target.scalar_ghz
            gap, fill, ghz = m.scalar_scale_gap_cycles, m.scalar_scale_fill_cycles, self.target.scalar_ghz
        return Cost(busy + gap / ghz, busy + fill / ghz)

    def tensor_tensor(self, unit: engine, dst: Any, first: Any, second: Any) -> Cost:
        """Return the cost of an elementwise operation on two inputs."""
        count = dst.free_size
        if unit is engine.gpsimd:
            return self.gpsimd(self.machine.gpsimd_two_inputs_pace * count)
        in_psum = first.storage.region is PSUM or second.storage.region is PSUM
        narrow = self._fast_type(first._dtype) and self._fast_type(second._dtype)
        if self.generation == 2:  # two inputs share the read port of SBUF unless they are narrow (OLD, tensor_tensor)
            single = in_psum or (narrow and _dense(first) and _dense(second))
            pace = 1.0 if single else self.machine.vector_two_inputs_pace
            return self.vector(count * pace * self._strided(dst, first, second))
        doubled = (
            not in_psum and narrow and self._fast_type(dst._dtype) and _dense(first) and _dense(second)
        )  # A2, 2x mode; A3
        return self.vector(count * (self.machine.vector_double_pace if doubled else 1.0))

    def predicated_copy(self, dst: Any, src: Any, predicate: Any) -> Cost:
        """Return the cost of copying a tile or a number to those elements for which a predicate is true."""
        return self.tensor_tensor(engine.vector, dst, src if hasattr(src, "storage") else dst, predicate)

    def reduce(self, data: Any) -> Cost:
        """Return the cost of tensor_reduce, max8 and nc_find_index8: one pass over the input."""
        return self.vector(data.free_size * (self._strided(data) if self.generation == 2 else 1))

    def reduce_and_read(self, data: Any, result: Any = True) -> Cost:
        """Return the cost of a reduction into the Vector Engine's accumulators and, if `result` is not None, of reading
        the accumulators into it."""
        return self.vector(data.free_size + (self.machine.vector_accumulator_cycles if result is not None else 0))

    def tensor_tensor_and_read(self, dst: Any, data1: Any, data2: Any, result: Any) -> Cost:
        """Return the cost of a pass over two inputs and, if `result` is not None, of reading the accumulators into
        it."""
        cost = self.tensor_tensor(engine.vector, dst, data1, data2)
        read = self.machine.vector_accumulator_cycles / self.target.vector_ghz if result is not None else 0.0
        return cost._replace(interval=cost.interval + read, latency=cost.latency + read)

    def exponential(self, data: Any, result: Any) -> Cost:
        """Return the cost of exp on NeuronCore-v4's Vector Engine and, if `result` is not None, of reading the
        accumulators into it."""
        cycles = data.free_size * self.machine.exponential_pace * self.target.vector_ghz / self.target.scalar_ghz
        return self.vector(cycles + (self.machine.vector_accumulator_cycles if result is not None else 0))

    def scan(self, dst: Any) -> Cost:
        return self.vector(self.machine.scan_pace * dst.free_size)

    def bn_aggr(self, data: Any) -> Cost:
        return self.vector(self.machine.bn_aggr_pace * data.free_size)

    def topk(self, elements: int, values: Any) -> Cost:
        return self.gpsimd(self.machine.topk_pace * elements + values.free_size)

    def reciprocal(self, data: Any) -> Cost:
        return self.vector(self.machine.reciprocal_cycles * data.free_size)

    def vector_transpose(self) -> Cost:
        """Return the cost of a transpose of up to 32 x 32 on the Vector Engine."""
        return self.vector(self.machine.vector_transpose_cycles)

    def _copy_pace(self, dst: Any, src: Any) -> float:
        """Return the cycles per element of a copy on the Vector Engine.

        In the performance modes of trn2 and newer, the number is a quarter or a half (A2, Vector Engine).
        """
        m = self.machine
        if self.generation == 2:
            return self._strided(dst, src)
        in_psum = (dst.storage.region is PSUM) + (src.storage.region is PSUM)
        if self._wide(dst) and dst._dtype.itemsize == 2:
            return m.vector_narrow_write_psum_pace if in_psum else m.vector_narrow_write_pace
        if self._fast_type(dst._dtype) and self._fast_type(src._dtype) and not self._wide(src):
            dense = _dense(dst) and _dense(src)
            by_operands_in_psum = (m.vector_quadruple_pace, m.vector_double_pace, 1.0)
            return by_operands_in_psum[in_psum] if dense else (1.0 if in_psum else m.vector_double_pace)
        if in_psum:
            return 1.0
        # Copies within SBUF run at twice the rate for every dtype (see docs/predictions.md: row i33, and the rows of
        # tensor_scalar).
        return m.vector_strided_read_pace if self._wide(src) else m.vector_double_pace

    def _wide(self, tensor: Any) -> bool:
        """Return True if adjacent elements are so far apart in memory that each requires a separate access."""
        distance = tensor.strides[-1] * tensor._dtype.itemsize
        return bool(tensor.shape[-1] > 1 and distance >= self.machine.wide_stride)

    def _strided(self, *tensors: Any) -> float:
        """Return the factor by which the stride of the operands increases the cycles.

        On trn1, memories provide half their bandwidth if elements are widely spaced (A1).
        """
        for tensor in tensors:
            if self._wide(tensor):
                return self.machine.strided_pace
        return 1.0

    def _fast_type(self, dtype: DType) -> bool:
        return dtype.bfloat16_like or (self.generation >= 4 and dtype.is_float and dtype.itemsize == 1)  # A3

    def matmul(self, stationary_columns: int, moving_columns: int, dtype: DType, stationary_stride: int) -> Cost:
        """Return the cost of a matmul. The stationary tile of the next matmul is loaded at the same time.

        A float32 matmul consists of two instructions of two passes each. `stationary_stride` is the distance between
        adjacent stationary elements in bytes. Unused rows do not make a matmul faster (PG).
        """
        m = self.machine
        columns = max(min(m.matmul_least_columns, stationary_columns), moving_columns)
        stride = m.stationary_stride if stationary_stride >= m.wide_stride else 1.0
        share = stationary_columns / STATIONARY_COLUMNS
        if dtype.name == "float32":
            instructions = m.matmul_fp32_instructions
            cycles = max(m.matmul_fp32_passes * columns, m.stationary_cycles_fp32 * share * stride)
        else:
            instructions, cycles = 1, max(columns, m.stationary_cycles * share * stride)
        least = instructions * m.matmul_interval_cycles / self.target.tensor_ghz
        streaming = instructions * cycles / self.target.tensor_ghz
        interval = streaming + instructions * m.matmul_gap_ns
        cold = m.cold_clock * max(streaming, least)
        return Cost(max(interval, least), interval + m.matmul_fill_ns, cold)

    def transpose(self, partitions: int, free: int, dtype: DType, stride: int) -> Cost:
        """Return the cost of a transpose on the Tensor Engine.

        The data is the stationary operand, and an identity matrix of `partitions` columns is the moving operand.
        """
        m = self.machine
        columns = max(min(m.matmul_least_columns, free), partitions)
        streaming = columns / self.target.tensor_ghz
        cold = m.cold_clock * streaming
        if dtype.itemsize == 4:
            streaming *= m.transpose_fp32_cycles * (m.transpose_fp32_stride if stride >= m.wide_stride else 1.0)
            cold = m.cold_clock * streaming
        latency = streaming + m.matmul_gap_ns + m.matmul_fill_ns
        if self.generation >= 4:  # the transpose overlaps other work
            streaming, cold = streaming * m.background_transpose, cold * m.background_transpose
        least = m.matmul_interval_cycles / self.target.tensor_ghz
        return Cost(max(streaming + m.matmul_gap_ns, least), latency, max(cold, m.cold_clock * least))


def _dense(tensor: Any) -> bool:
    """Return True if the elements along the innermost dimension are contiguous."""
    return bool(tensor.strides[-1] == 1)

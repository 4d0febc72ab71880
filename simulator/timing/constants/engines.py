"""Instruction costs of the Tensor, Vector, Scalar and GpSimd Engines, for each target."""

from __future__ import annotations

from .entry import (
    CYCLES_OF_TRN2,
    Row,
    as_on_trn2,
    cycles,
    documented,
    everywhere,
    measured,
    only_trn1,
    only_trn3,
    same_on_trn3,
    scaled,
    third_party,
)

# name: (trn1, trn2, trn3)
ENGINES: dict[str, Row] = {
    # Tensor Engine
    "matmul_least_columns": everywhere(
        documented(64, "cycles", "minimum interval of a matmul with few columns (A1: MM_INIT_LATENCY)")
    ),
    "matmul_interval_cycles": everywhere(
        measured(64, "cycles", "minimum interval between matmuls of any size: 25 to 26.7 ns on trn2; A1")
    ),
    "matmul_fp32_instructions": everywhere(
        measured(2, "instructions", "number per float32 matmul: 65,536 for 32,768 calls in a profile of KO")
    ),
    "matmul_fp32_passes": everywhere(
        documented(2, "cycles/column", "rate of each of the two instructions: 4 cycles per column in total (A1, OLD)")
    ),
    "cold_clock": everywhere(
        documented(2, "times", "slowdown at the cold clock, which has half the full rate (SUM; row i43)")
    ),
    "wide_stride": everywhere(
        documented(16, "B", "minimum stride at which a memory provides half its bandwidth to an engine (A1)")
    ),
    "matmul_gap_ns": as_on_trn2(
        measured(2.5, "ns", "gap between matmuls, in addition to their columns, rows i04 to i12"), "trn2's; k33 agrees"
    ),
    "matmul_fill_ns": same_on_trn3(
        measured(
            125,
            "ns",
            "time until the last result is in PSUM: 188 to 219 ns in total at 128 columns, PG figs. 18, 20, 21",
        ),
        measured(163, "ns", "time until the last result is in PSUM, notes of rows i04 and i07"),
    ),
    "stationary_cycles": everywhere(
        documented(64, "cycles", "minimum interval of a 16-bit weight load (A1: MM_INIT_LATENCY); it hides 32 cycles")
    ),
    "stationary_cycles_fp32": cycles(
        third_party(
            256, "cycles", "weight load of each of the two instructions of an fp32 matmul: V, 1.7 ns per column; i14"
        )
    ),
    "stationary_stride": cycles(
        third_party(2.2, "times", "stationary operand with a stride of 16 B or more: V; rows i10, i13")
    ),
    "background_transpose": only_trn3(
        documented(
            0.5, "of the time", "interval of consecutive transposes, which overlap other work (A3: close to double)"
        )
    ),
    "transpose_fp32_cycles": (
        documented(4, "cycles/column", "a matmul with the identity: 4 passes (A1, OLD)"),
        measured(2, "cycles/column", "109 ns warm and 213 cold for 128 columns (352 transposes)"),
        scaled(2, "cycles/column", CYCLES_OF_TRN2),
    ),
    "transpose_fp32_stride": cycles(
        measured(1.78, "times", "stride of 16 B or more: row i16 relative to 109 ns for contiguous data")
    ),
    "warm_window_ns": (
        documented(0, "ns", "trn1's clock is not throttled"),
        measured(3413.3, "ns", "the PE clock is set for each window of 4,096 cycles at 1.2 GHz, row i43; SUM"),
        scaled(3413.3, "ns", "trn2's; SUM documents the same behaviour"),
    ),
    "warm_utilization": everywhere(
        documented(0.5, "of a window", "if a window is busier than this, the next is at the full clock, SUM")
    ),
    # Vector Engine
    "vector_gap_cycles": cycles(
        measured(62.4, "cycles", "gap between instructions, in addition to their elements: 65 ns, rows i28, i30 to i33")
    ),
    "vector_fill_cycles": cycles(
        measured(
            151, "cycles", "time until the result can be read, in addition to the elements: 157 ns, rows i26 to i31; V"
        )
    ),
    "vector_quadruple_pace": everywhere(
        documented(0.25, "cycles/element", "copies and tensor_scalar of contiguous 16-bit data in SBUF (A2, 4x mode)")
    ),
    "vector_double_pace": everywhere(
        documented(
            0.5, "cycles/element", "the same if strided or with one side in PSUM; two 16-bit inputs (A2, 2x mode)"
        )
    ),
    "vector_strided_read_pace": cycles(
        measured(0.875, "cycles/element", "copies whose source has a stride of 16 B or more: 182 ns for 128 elements")
    ),
    "vector_narrow_write_pace": cycles(
        measured(
            2.2, "cycles/element", "2-byte writes with a stride of 16 B or more, from SBUF: 447 ns for 128 elements"
        )
    ),
    "vector_narrow_write_psum_pace": cycles(
        measured(
            3.6, "cycles/element", "2-byte writes with a stride of 16 B or more, from PSUM: 546 ns for 128 elements"
        )
    ),
    "vector_operand_gap_cycles": cycles(
        measured(124, "cycles", "gap with one operand per partition: 395.8 ns for 512 fp32, 267.7 for 128 from PSUM")
    ),
    "vector_operand_fill_cycles": cycles(
        measured(
            206, "cycles", "time until the result can be read, with one operand per partition: 481 ns for 512 fp32"
        )
    ),
    "memset_gap_cycles": cycles(measured(7, "cycles", "gap between memsets: 8.3 ns for 1 element, 140.6 for 128")),
    "memset_fill_cycles": cycles(measured(77, "cycles", "time until the value can be read: 80 ns")),
    "vector_two_inputs_pace": only_trn1(
        documented(2, "cycles/element", "two inputs, which share the read port of SBUF (OLD, tensor_tensor)")
    ),
    "strided_pace": only_trn1(
        documented(2, "times", "slowdown if the stride of an operand is at least `wide_stride` (A1)")
    ),
    "vector_accumulator_cycles": everywhere(
        documented(64, "cycles", "reading the accumulators after streaming (OLD, tensor_scalar_reduce)")
    ),
    "scan_pace": everywhere(
        documented(2, "cycles/element", "each element waits for the previous one (OLD, tensor_tensor_scan; V 2.08 ns)")
    ),
    "bn_aggr_pace": everywhere(documented(13 / 3, "cycles/element", "OLD, bn_aggr")),
    "exponential_pace": only_trn3(
        documented(
            0.25,
            "Scalar Engine's cycles/element",
            "four times the Scalar Engine's throughput, on the Vector Engine (A3)",
        )
    ),
    "vector_transpose_cycles": cycles(
        third_party(27, "cycles", "interval of a 32 x 32 transpose, in addition to the gap: V, 93 ns")
    ),
    "reciprocal_cycles": (
        documented(8, "cycles/element", "nki.api.shared"),
        third_party(6, "cycles/element", "V: 6.25 ns"),
        scaled(6, "cycles/element", CYCLES_OF_TRN2),
    ),
    # Scalar Engine
    "scalar_gap_cycles": cycles(
        measured(111, "cycles", "gap between copies from SBUF: 92.5 ns at N = 1, 111, 420 and 444")
    ),
    "scalar_psum_gap_cycles": cycles(
        measured(60, "cycles", "gap between copies from PSUM: 50 ns at N = 1, 64, 128 and 512")
    ),
    "scalar_operand_gap_cycles": cycles(
        measured(
            111, "cycles", "additional gap if a bias is read: exp takes 185 ns from SBUF and 143 from PSUM at N = 512"
        )
    ),
    "scalar_scale_gap_cycles": cycles(
        measured(488, "cycles", "gap between tensor_scalars with one operand per partition: 514 ns for 128 elements")
    ),
    "scalar_strided_read_pace": cycles(
        measured(2, "cycles/element", "copies whose source has a stride of 16 B or more: 304 and 323 ns for 128")
    ),
    "scalar_narrow_write_pace": cycles(
        measured(
            4.6,
            "cycles/element",
            "2-byte writes with a stride of 16 B or more: 557 ns from PSUM, 571 from SBUF for 128",
        )
    ),
    "scalar_copy_fill_cycles": (
        measured(222, "cycles", "time until the result can be read: 159 ns, PG fig. 16"),
        measured(226, "cycles", "time until the result of a copy from SBUF can be read: 186 to 191 ns"),
        scaled(226, "cycles", CYCLES_OF_TRN2),
    ),
    "scalar_copy_psum_fill_cycles": (
        measured(222, "cycles", "time until the result can be read: 159 ns, PG fig. 16"),
        measured(190, "cycles", "time until the result of a copy from PSUM can be read: 158 ns; rows i19, i21, i22; V"),
        scaled(190, "cycles", CYCLES_OF_TRN2),
    ),
    "scalar_scale_fill_cycles": cycles(
        measured(
            460,
            "cycles",
            "time until the result of a tensor_scalar with one operand per partition can be read: 491 ns for 128",
        )
    ),
    "scalar_fill_cycles": (
        measured(222, "cycles", "time until the result can be read: 159 ns, PG fig. 16"),
        measured(350, "cycles", "time until the result of a function from SBUF can be read: 278 to 294 ns; V 290"),
        scaled(350, "cycles", CYCLES_OF_TRN2),
    ),
    "scalar_psum_fill_cycles": (
        measured(222, "cycles", "time until the result can be read: 159 ns, PG fig. 16"),
        measured(306, "cycles", "time until the result of a function from PSUM can be read: 250 to 260 ns"),
        scaled(306, "cycles", CYCLES_OF_TRN2),
    ),
    "scalar_accumulator_cycles": everywhere(documented(64, "cycles", "interval of reading the accumulators, A1")),
    "scalar_accumulator_fill_ns": as_on_trn2(third_party(279, "ns")),
    "scalar_double_pace": only_trn3(
        documented(0.5, "cycles/element", "copies and tensor_scalar of 16-bit data (A3, Scalar Engine)")
    ),
    "table_load_ns": as_on_trn2(measured(1283, "ns", "load of a function's lookup table, row i25; V")),
    # GpSimd Engine
    "gpsimd_gap_cycles": everywhere(documented(64, "cycles", "minimum interval of an instruction, nki.api.shared")),
    "gpsimd_fill_cycles": cycles(
        third_party(212, "cycles", "time until the result can be read: V 177 ns; OLD 150 cycles")
    ),
    "gpsimd_two_inputs_pace": everywhere(
        scaled(2, "cycles/element", "trn1's Vector Engine, whose inputs share a read port; not published for GpSimd")
    ),
    "topk_pace": everywhere(
        documented(4, "cycles/element", "rate for the input of topk, in addition to one cycle for each result (ISA)")
    ),
    # Sequencers
    "register_ns": as_on_trn2(third_party(68, "ns", "a register move, in one profile")),
}

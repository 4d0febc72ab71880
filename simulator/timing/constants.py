"""Every number that the timing model uses, for each target: value, unit, where it comes from and how sure it is.

Marks: `documented` by AWS (or by a JEDEC standard); `measured` on hardware, read off public profiles; `third-party`, a
published calibration; `fitted` to kernel latencies, whose ids `rows` names (of the project's measurement files, k..
kernels, i.. instructions); `scaled`, nobody has published it: taken from another target, and said so wherever a
prediction that uses it is shown.

Sources in short, of aws-neuron-sdk: PG nki_perf_guide, A1 A2 A3 the architecture guides of trn1, trn2 and trn3, BW
nki-dma-bandwidth-guide, DO nki-dma-overview, DG nki-dge, KO kernel-optimization, SUM the profiler's overview page, OLD
the API docstrings of SDK 2.26. V is voyager-compiler's published hardware calibration of trn2.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache


@dataclass(frozen=True)
class Constant:
    """One number of one target."""

    value: float
    unit: str
    mark: str
    source: str
    rows: tuple[str, ...] = ()


MARKS = ("documented", "measured", "third-party", "fitted", "scaled")


def documented(value: float, unit: str, source: str) -> Constant:
    return Constant(value, unit, "documented", source)


def measured(value: float, unit: str, source: str) -> Constant:
    return Constant(value, unit, "measured", source)


def third_party(value: float, unit: str, source: str = "V") -> Constant:
    return Constant(value, unit, "third-party", source)


def fitted(value: float, unit: str, source: str, *rows: str) -> Constant:
    return Constant(value, unit, "fitted", source, rows)


def scaled(value: float, unit: str, source: str) -> Constant:
    return Constant(value, unit, "scaled", source)


_FROM_TRN2 = "trn2's value in ns: nothing is published for trn3"
_CYCLES_OF_TRN2 = "trn2's cycles at this target's clock"


def _same_on_trn3(trn1: Constant, trn2: Constant) -> tuple[Constant, Constant, Constant]:
    return trn1, trn2, scaled(trn2.value, trn2.unit, _FROM_TRN2)


def _cycles(trn2: Constant) -> tuple[Constant, Constant, Constant]:
    """A number of cycles known on trn2 and taken as the same number of cycles elsewhere."""
    return scaled(trn2.value, trn2.unit, _CYCLES_OF_TRN2), trn2, scaled(trn2.value, trn2.unit, _CYCLES_OF_TRN2)


def _everywhere(constant: Constant) -> tuple[Constant, Constant, Constant]:
    return constant, constant, constant


def _only_trn1(trn1: Constant) -> tuple[Constant, Constant, Constant]:
    """Of what is modelled on trn1 alone."""
    unused = scaled(trn1.value, trn1.unit, "trn1's; not used")
    return trn1, unused, unused


# name: (trn1, trn2, trn3)
TABLE: dict[str, tuple[Constant, Constant, Constant]] = {
    # Launch: from the start of the kernel as it is counted to its first trigger, and from its last write to the end.
    "launch_ns": _same_on_trn3(
        fitted(14_400, "ns", "a launch as a benchmark counts it", "k16", "k17", "k18", "k19"),
        fitted(9_700, "ns", "a launch as a benchmark counts it", "k04"),
    ),
    "launch_profiled_ns": _same_on_trn3(
        fitted(16_000, "ns", "a launch as a profile's total_time counts it", "k25", "k26"),
        fitted(14_700, "ns", "as above; a published profile shows 13.1 + 2.7 us", "k05", "k06", "k22", "k23", "k24"),
    ),
    # Control
    "hop_ns": _same_on_trn3(
        measured(30, "ns", "semaphore from engine to engine, PG fig. 16"),
        measured(28, "ns", "semaphore from engine to engine, profiles in DO and the kernel optimization guide"),
    ),
    # DMA
    "trigger_ns": _same_on_trn3(
        fitted(112, "ns", "between two triggers of prepared descriptors", "k13", "k14"),
        measured(120, "ns", "between two triggers of prepared descriptors (DGE off), a published profile"),
    ),
    "dge_ns": _same_on_trn3(
        documented(0, "ns", "NeuronCore-v2 has no hardware DGE (A2)"),
        fitted(485, "ns", "descriptor generation of one DMA; documented as about 600 for a whole one (A2, DG)", "k01"),
    ),
    "dge_row_ns": _same_on_trn3(
        documented(0, "ns/partition", "NeuronCore-v2 has no hardware DGE (A2)"),
        fitted(0.93, "ns/partition", "descriptor generation, for each partition", "k34"),
    ),
    "load_first_byte_ns": _same_on_trn3(
        scaled(900, "ns", "trn2's static DMA; A1 gives about 1,300 with the semaphore"),
        measured(745, "ns", "generated descriptors to first byte of a load, profiles in DO; V 751"),
    ),
    "store_first_byte_ns": _same_on_trn3(
        scaled(850, "ns", "trn2's static DMA"),
        measured(590, "ns", "generated descriptors to first byte of a store, profiles in DO; V 566"),
    ),
    "load_first_byte_static_ns": _same_on_trn3(
        scaled(900, "ns", "trn2's; A1 gives about 1,300 with the semaphore"),
        measured(900, "ns", "trigger of prepared descriptors to first byte of a load, a published profile"),
    ),
    "store_first_byte_static_ns": _same_on_trn3(
        scaled(850, "ns", "trn2's"),
        measured(850, "ns", "trigger of prepared descriptors to first byte of a store, a published profile"),
    ),
    "load_tail_ns": _same_on_trn3(
        scaled(340, "ns", "trn2's"),
        measured(340, "ns", "last byte of a load to its consumer, DO and KO profiles; V 314"),
    ),
    "store_tail_ns": _same_on_trn3(scaled(355, "ns", "trn2's"), third_party(355, "ns")),
    "load_landing_ns": _same_on_trn3(
        scaled(450, "ns", "trn2's"),
        measured(
            450,
            "ns",
            "from the engines' last byte of a load to its landing: V 293, DO's profiles about 350, row i40 1,100",
        ),
    ),
    "store_landing_ns": _same_on_trn3(
        scaled(200, "ns", "trn2's"),
        measured(200, "ns", "from the engines' last byte of a store to its landing: V 162, row i41 230"),
    ),
    "dma_peak": (
        documented(27.2, "B/ns", "of one engine, A1"),
        documented(27.2, "B/ns", "of one engine, DO; rows i34 to i37 agree"),
        documented(38.4, "B/ns", "of one engine, DO"),
    ),
    "dma_sustained": (
        documented(272, "B/ns", "of the 16 engines together, BW"),
        documented(368, "B/ns", "of the 16 engines together, BW"),
        documented(528, "B/ns", "of the 16 engines together, BW"),
    ),
    "descriptor_ns": _same_on_trn3(
        scaled(8.9, "ns", "trn2's"),
        measured(
            8.9, "ns", "beside the bytes of a descriptor, rows i34 to i38 and the DMA time that the profile k24 shows"
        ),
    ),
    "descriptor_software_ns": _same_on_trn3(
        scaled(32, "ns", "trn2's"), measured(32, "ns", "the same where GpSimd makes the descriptors, row i39")
    ),
    "partial_write_ns": (
        fitted(
            38,
            "ns",
            "a write narrower than 64 B that shares its 64 B of HBM with the next (a DRAM row cycle is 45)",
            "k12",
        ),
        scaled(38, "ns", "trn1's"),
        scaled(38, "ns", "trn1's"),
    ),
    "dma_transpose_hbm": _everywhere(documented(0.9, "of the rate", "HBM to SBUF at most, A2")),
    "dma_transpose_sbuf": _everywhere(documented(0.5, "of the rate", "SBUF to SBUF at most, A2")),
    # HBM: pseudo-channels of one stack. trn1's rows of a matrix whose pitch is a multiple of 4 KiB meet in few of them.
    "hbm_channels": (
        fitted(
            16,
            "",
            "pseudo-channels of an HBM2E stack (JESD235; 16 x 25.6 = 410 GB/s, as A1 says); that they are interleaved "
            "plainly, so that rows can meet in few of them, is inferred from the rows",
            "k30",
            "k31",
            "k32",
        ),
        documented(0, "", "addresses are spread over channels (BW); rows i42 and k35 show no conflicts"),
        documented(0, "", "addresses are spread over channels (BW)"),
    ),
    "hbm_channel_rate": _everywhere(documented(25.6, "B/ns", "of one pseudo-channel of HBM2E: 64 bits at 3.2 Gb/s")),
    "hbm_interleave": _only_trn1(fitted(256, "B", "before the next pseudo-channel", "k30", "k31", "k32")),
    "dma_outstanding": _only_trn1(
        fitted(4, "DMAs", "whose requests to HBM are under way at a time", "k30", "k31", "k32")
    ),
    "hbm_access": _everywhere(documented(32, "B", "the least that a pseudo-channel moves: 64 bits x burst of 4")),
    "hbm_stack_rate": (
        documented(410, "B/ns", "of the stack that a tensor lies in: 820 GB/s over 2, A1"),
        measured(716, "B/ns", "of the stack that a tensor lies in, profiler metadata"),
        documented(1200, "B/ns", "of the stack that a tensor lies in: 4.8 TB/s over 4, A3"),
    ),
    # Tensor Engine
    "matmul_gap_ns": _same_on_trn3(
        fitted(30, "ns", "between matmuls beside their columns", "k33"),
        measured(2.5, "ns", "between matmuls beside their columns, rows i04 to i12"),
    ),
    "matmul_fill_ns": _same_on_trn3(
        measured(
            125, "ns", "until the last result is in PSUM: 188 to 219 ns in all at 128 columns, PG figs. 18, 20, 21"
        ),
        measured(163, "ns", "until the last result is in PSUM, notes of rows i04 and i07"),
    ),
    "stationary_cycles": _everywhere(
        documented(
            64, "cycles", "least interval of a 16-bit weight load (A1: MM_INIT_LATENCY); 32 are hidden behind it"
        )
    ),
    "stationary_cycles_fp32": _cycles(
        third_party(
            256, "cycles", "weight load of each of the two instructions of an fp32 matmul: V 1.7 ns a column; i14"
        )
    ),
    "stationary_stride": _cycles(
        third_party(2.2, "times", "a stationary operand whose neighbours are 16 B or more apart: V; rows i10, i13")
    ),
    "transpose_fp32_cycles": (
        documented(4, "cycles/column", "a matmul with the identity: 4 passes (A1, OLD)"),
        third_party(3.15, "cycles/column", "single pass: V, 168 ns for 128 columns"),
        scaled(3.15, "cycles/column", _CYCLES_OF_TRN2),
    ),
    "transpose_fp32_stride": _cycles(
        measured(1.146, "times", "data 16 B or more apart: row i16 over V's contiguous 168 ns")
    ),
    "transpose_fp32_cold": _cycles(third_party(1.27, "times", "at the cold clock: V, 213 over 168 ns")),
    "warm_window_ns": (
        documented(0, "ns", "trn1's clock is not throttled"),
        measured(3413.3, "ns", "the PE clock is decided anew in windows of 4,096 cycles at 1.2 GHz, row i43; SUM"),
        scaled(3413.3, "ns", "trn2's; SUM documents the same behaviour"),
    ),
    "warm_utilization": _everywhere(
        documented(0.5, "of a window", "busier than this, the next window is at full clock, SUM")
    ),
    # Vector Engine
    "vector_gap_cycles": _cycles(
        measured(62.4, "cycles", "between instructions beside their elements: 65 ns, rows i28, i30 to i33")
    ),
    "vector_fill_cycles": _cycles(
        measured(151, "cycles", "until the result can be read, beside the elements: 157 ns, rows i26 to i31; V")
    ),
    "vector_transpose_cycles": _cycles(
        third_party(27, "cycles", "interval of a 32 x 32 transpose beside its gap: V, 93 ns")
    ),
    "reciprocal_cycles": (
        documented(8, "cycles/element", "nki.api.shared"),
        third_party(6, "cycles/element", "V: 6.25 ns"),
        scaled(6, "cycles/element", _CYCLES_OF_TRN2),
    ),
    # Scalar Engine
    "scalar_gap_cycles": _cycles(
        measured(112, "cycles", "between instructions beside their elements: 93 ns, rows i23 and i24")
    ),
    "scalar_bit_copy_gap_cycles": _cycles(
        measured(64, "cycles", "between copies that do not go through float32: 54 ns, row i20")
    ),
    "scalar_copy_fill_cycles": (
        measured(222, "cycles", "until the result can be read: 159 ns, PG fig. 16"),
        measured(190, "cycles", "until the result of a copy can be read: 159 ns, rows i19, i21, i22; V"),
        scaled(190, "cycles", _CYCLES_OF_TRN2),
    ),
    "scalar_fill_cycles": (
        measured(222, "cycles", "until the result can be read: 159 ns, PG fig. 16"),
        third_party(348, "cycles", "until the result of a function can be read: V 290 ns, 294 to 297 in DO's profiles"),
        scaled(348, "cycles", _CYCLES_OF_TRN2),
    ),
    "scalar_accumulator_cycles": _everywhere(documented(64, "cycles", "interval of reading the accumulators, A1")),
    "scalar_accumulator_fill_ns": _same_on_trn3(scaled(279, "ns", "trn2's"), third_party(279, "ns")),
    "table_load_ns": _same_on_trn3(
        scaled(1283, "ns", "trn2's"), measured(1283, "ns", "loading the lookup table of a function, row i25; V")
    ),
    # GpSimd Engine
    "gpsimd_gap_cycles": _everywhere(documented(64, "cycles", "the least interval of an instruction, nki.api.shared")),
    "gpsimd_fill_cycles": _cycles(third_party(212, "cycles", "until the result can be read: V 177 ns; OLD 150 cycles")),
}

TARGETS = ("trn1", "trn2", "trn3")


@dataclass(frozen=True)
class Machine:
    """The values of one target, by the names of TABLE."""

    launch_ns: float
    launch_profiled_ns: float
    hop_ns: float
    trigger_ns: float
    dge_ns: float
    dge_row_ns: float
    load_first_byte_ns: float
    store_first_byte_ns: float
    load_first_byte_static_ns: float
    store_first_byte_static_ns: float
    load_tail_ns: float
    store_tail_ns: float
    load_landing_ns: float
    store_landing_ns: float
    dma_peak: float
    dma_sustained: float
    descriptor_ns: float
    descriptor_software_ns: float
    partial_write_ns: float
    dma_transpose_hbm: float
    dma_transpose_sbuf: float
    hbm_channels: float
    hbm_channel_rate: float
    hbm_interleave: float
    dma_outstanding: float
    hbm_access: float
    hbm_stack_rate: float
    matmul_gap_ns: float
    matmul_fill_ns: float
    stationary_cycles: float
    stationary_cycles_fp32: float
    stationary_stride: float
    transpose_fp32_cycles: float
    transpose_fp32_stride: float
    transpose_fp32_cold: float
    warm_window_ns: float
    warm_utilization: float
    vector_gap_cycles: float
    vector_fill_cycles: float
    vector_transpose_cycles: float
    reciprocal_cycles: float
    scalar_gap_cycles: float
    scalar_bit_copy_gap_cycles: float
    scalar_copy_fill_cycles: float
    scalar_fill_cycles: float
    scalar_accumulator_cycles: float
    scalar_accumulator_fill_ns: float
    table_load_ns: float
    gpsimd_gap_cycles: float
    gpsimd_fill_cycles: float


def constants(target: str) -> dict[str, Constant]:
    """The constants of a target ("trn1", "trn2" or "trn3") by name."""
    column = TARGETS.index(target)
    return {name: row[column] for name, row in TABLE.items()}


@cache
def machine(target: str) -> Machine:
    """The values of a target's constants, after any `override`."""
    found = constants(target)
    return Machine(
        **{field.name: _overrides.get((target, field.name), found[field.name].value) for field in fields(Machine)}
    )


def fitted_constants() -> list[tuple[str, str, Constant]]:
    """(target, name, constant) of all that were fitted to kernel rows."""
    return [
        (target, name, constant)
        for target in TARGETS
        for name, constant in constants(target).items()
        if constant.mark == "fitted"
    ]


def scaled_note(target: str) -> str | None:
    """What must be said beside every prediction for a target whose latencies nobody has published; None elsewhere."""
    if target != "trn3":
        return None
    return "trn3 latencies are scaled from trn2 (AWS publishes clocks and bandwidths, nobody latencies): unvalidated"


_overrides: dict[tuple[str, str], float] = {}


def override(target: str, name: str, value: float | None) -> None:
    """Use another value of a constant from now on (None: the table's again); for fits and leave-one-out studies."""
    if name not in TABLE:
        raise KeyError(name)
    if value is None:
        _overrides.pop((target, name), None)
    else:
        _overrides[target, name] = value
    machine.cache_clear()


def overrides() -> tuple[tuple[str, str, float], ...]:
    """What is overridden at present."""
    return tuple((target, name, value) for (target, name), value in sorted(_overrides.items()))

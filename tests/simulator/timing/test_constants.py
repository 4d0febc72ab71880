"""The table of timing constants is complete, cites sources, and is the only place with such constants."""

import ast
import csv
import re
from pathlib import Path

import pytest
from trninfer import simulator
from trninfer.benchmarks.measurements import DATA
from trninfer.kernels import vector_add_stream
from trninfer.simulator.timing import constants as package
from trninfer.simulator.timing.constants import MARKS, TABLE, TARGETS, constants, machine, override, overrides
from trninfer.simulator.timing.dma import element_time

SIMULATOR = Path(package.__file__).parents[2]
HOLDERS = {"m", "machine", "constants"}  # names of variables that hold a Machine
ELSEWHERE = {"hbm_stack_rate"}  # read by reports, not by the schedule


def names_read():
    """Return the attributes read from anything named like a machine, in the whole simulator."""
    found = set()
    for path in SIMULATOR.rglob("*.py"):
        if {"migrate", "lint"} & set(path.parts):  # these read sources and have no times
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and (
                _name_of(node.value) in HOLDERS
                or (isinstance(node.value, ast.Call) and _name_of(node.value.func) == "machine")
            ):
                found.add(node.attr)
    return found


def _name_of(value):
    """Return the name of a variable, or of an attribute of self."""
    if isinstance(value, ast.Attribute) and _name_of(value.value) == "self":
        return value.attr
    return value.id if isinstance(value, ast.Name) else ""


def test_every_number_is_used_and_every_number_used_is_in_the_table():
    used = names_read()
    assert set(TABLE) - used <= ELSEWHERE
    modules = {"cache_clear", "override", "overrides"}
    assert {name for name in used if name not in TABLE} <= modules


@pytest.mark.parametrize("target", TARGETS)
def test_every_number_has_a_source_a_mark_and_rows_if_fitted(target):
    for name, constant in constants(target).items():
        assert constant.mark in MARKS and constant.source, name
        assert constant.rows or constant.mark != "fitted", name


def test_a_number_scaled_from_another_target_equals_it():
    """Sources such as "trn2's" or "trn1's; not used"."""
    taken = 0
    for target in TARGETS:
        for name, constant in constants(target).items():
            of = re.fullmatch(r"(trn[123])'s([:;].*| cycles at this target's clock)?", constant.source)
            if constant.mark == "scaled" and of:
                taken += 1
                assert constant.value == constants(of[1])[name].value, (target, name)
    assert taken > 20


def test_a_machine_has_the_names_of_the_table_and_no_other():
    assert set(vars(machine("trn2"))) == set(TABLE)
    with pytest.raises(AttributeError):
        machine("trn2").no_such_constant  # noqa: B018


def test_an_override_changes_the_machine_and_can_be_removed():
    before = machine("trn2")
    override("trn2", "trigger_ns", 99.0)
    try:
        assert machine("trn2").trigger_ns == 99.0 and overrides() == (("trn2", "trigger_ns", 99.0),)
    finally:
        override("trn2", "trigger_ns", None)
    assert machine("trn2").trigger_ns == before.trigger_ns and overrides() == ()
    with pytest.raises(KeyError):
        override("trn2", "no_such_constant", 1.0)


def test_a_run_with_other_constants_is_labelled_and_leaves_no_trace():
    vector = simulator.TensorSpec((128 * 20_000,), "float32")

    def run(**more):
        return simulator.run(vector_add_stream, vector, vector, functional=False, free=2000, **more)

    plain, faster = run(), run(constants={"dma_sustained": 500})
    assert faster.latency_us < plain.latency_us
    assert plain.note is None and "dma_sustained = 500 (not 368) B/ns" in faster.note
    assert overrides() == () and run().latency_us == plain.latency_us


@pytest.mark.parametrize(
    ("constants", "told"),
    [
        ({"dma_sustaned": 1}, "near: dma_sustained"),
        ({"dma_peak": 0}, "must be at least 1"),
        ({"hop_tensor_ns": -1}, "at least 0"),
        ({"hop_tensor_ns": float("nan")}, "at least 0"),
        ({"hop_tensor_ns": 60, "no_such": 2}, "no_such"),
    ],
)
def test_impossible_constants_are_refused_whole(constants, told):
    vector = simulator.TensorSpec((256,), "float32")
    with pytest.raises(simulator.NkiValidationError, match=told):
        simulator.run(vector_add_stream, vector, vector, functional=False, free=2, constants=constants)
    assert overrides() == ()


# The measurement of each trn2 constant: file, row, column.
LATENCIES, ELEMENTS = "dma-latencies.csv", "dma-elements.csv"
FIRST_READ = {"what": "trigger start -> first read"}
MEASURED = {
    "table_load_ns": ("instruction-timings.csv", {"opcode": "act_table_load"}, "dur_p50"),
    "load_first_byte_static_ns": (LATENCIES, {"queue": "qSPIO0", **FIRST_READ}, "p50"),
    "store_first_byte_static_ns": (LATENCIES, {"queue": "qPoolIO0", **FIRST_READ}, "p50"),
    "store_first_byte_ns": (LATENCIES, {"queue": "qPoolDynamic", "direction": "store", **FIRST_READ}, "p50"),
    "swdge_ns": (LATENCIES, {"what": "issue interval (dispatch to dispatch); 128x1 of 2048 B"}, "p50"),
    "small_element_ns": (ELEMENTS, {"queue": "qPoolDynamic", "bytes": "4"}, "read_p50"),
    "landed_dma_ns": ("hops.csv", {"producer_engine": "DMA", "consumer_engine": "SP"}, "p50"),
}


def row_of(file, fields):
    """Return the row with the given fields in a file of measurements."""
    with (DATA / "measured" / file).open(newline="", encoding="utf-8") as opened:
        found = [row for row in csv.DictReader(opened) if all(row[name] == value for name, value in fields.items())]
    assert len(found) == 1, (file, fields)
    return found[0]


@pytest.mark.parametrize("name", MEASURED)
def test_a_measured_constant_is_what_its_row_says(name):
    file, fields, column = MEASURED[name]
    assert getattr(machine("trn2"), name) == pytest.approx(float(row_of(file, fields)[column]), abs=0.5)


def test_a_dma_by_gpsimd_begins_as_long_after_its_data_as_measured():
    """From a result of the Vector Engine to the trigger of the store that waits for it."""
    m = machine("trn2")
    row = row_of("hops.csv", {"producer_engine": "DVE", "producer_opcode": "43", "consumer_engine": "POOL"})
    assert m.hop_gpsimd_ns + m.swdge_lead_ns + m.swdge_ns == pytest.approx(float(row["min"]), abs=0.5)


@pytest.mark.parametrize("size", [256, 4096])
def test_intervals_of_elements_are_as_measured(size):
    """For hardware-generated descriptors, and for pieces of a store that GpSimd's descriptors cannot gather."""
    m = machine("trn2")
    queue, extra = ("qPoolDynamic", m.swdge_element_ns) if size == 256 else ("qSPDynamicHW", 0)
    interval = element_time(size, m, single=not extra) + extra
    measured = float(row_of(ELEMENTS, {"queue": queue, "bytes": str(size)})["interval_p50"])
    assert interval == pytest.approx(measured, abs=0.5)


ENGINES = {"PE": "tensor", "DVE": "vector", "ACT": "scalar", "POOL": "gpsimd"}


@pytest.mark.parametrize("waiting", ENGINES)
def test_semaphore_delays_are_within_the_measured_rows(waiting):
    """From any engine, and from a DMA."""
    with (DATA / "measured" / "hops.csv").open(newline="", encoding="utf-8") as opened:
        rows = [row for row in csv.DictReader(opened) if row["consumer_engine"] == waiting and int(row["n"]) >= 10]
    m = machine("trn2")
    landed = m.landed_tensor_ns if waiting == "PE" else m.landed_ns
    for value, is_dma in ((getattr(m, f"hop_{ENGINES[waiting]}_ns"), False), (landed, True)):
        own = [row for row in rows if (row["producer_engine"] == "DMA") == is_dma]
        assert min(float(row["p10"]) for row in own) - 1.5 <= value <= max(float(row["p90"]) for row in own) + 1.5


@pytest.mark.parametrize(
    ("target", "engines", "together", "stack"),
    [("trn1", 27.2, 272, 410), ("trn2", 27.2, 368, 716), ("trn3", 38.4, 528, 1175)],
)
def test_rates_of_a_generation_are_those_that_are_documented(target, engines, together, stack):
    """The peak of 16 engines exceeds their sustained total, which is less than the bandwidth of an HBM stack."""
    m = machine(target)
    assert (m.dma_peak, m.dma_sustained, m.hbm_stack_rate) == (engines, together, stack)
    assert together < 16 * engines and together < stack
    assert m.hbm_channels == (16 if target == "trn1" else 32)
    assert m.dma_compute_passes == (1 if target == "trn3" else 2)


def test_engines_take_what_is_documented():
    """At least 64 cycles, four per column in float32, and half the clock until the array has been busy for half of
    4,096 cycles."""
    for target in TARGETS:
        m = machine(target)
        assert m.matmul_least_columns == m.matmul_interval_cycles == m.stationary_cycles == 64
        assert m.matmul_fp32_instructions * m.matmul_fp32_passes == 4
        assert m.gpsimd_gap_cycles == m.vector_accumulator_cycles == m.scalar_accumulator_cycles == 64
        assert (m.cold_clock, m.warm_utilization, m.wide_stride) == (2, 0.5, 16)
    assert machine("trn1").warm_window_ns == 0
    assert machine("trn2").warm_window_ns == machine("trn3").warm_window_ns == pytest.approx(4096 / 1.2, abs=0.1)


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [("ring_static_ns", 186, 240), ("ring_hardware_ns", 235, 299), ("ring_software_ns", 256, 420)],
)
def test_the_last_of_16_engines_is_as_late_as_profiles_show(name, least, most):
    """From the first read to the last, beyond the busy time of an engine (dma-transfers.csv)."""
    assert least <= 15 * getattr(machine("trn2"), name) <= most


def test_a_barrier_takes_as_long_as_the_tail_of_a_dma():
    """Nobody has published it; both end in a semaphore that another unit writes."""
    assert {machine(target).barrier_ns for target in TARGETS} == {machine("trn2").store_landing_ns}


# Cycles per element, according to the documentation of the instruction or of the engine.
DOCUMENTED = {
    "vector_quadruple_pace": {"trn1": 0.25, "trn2": 0.25, "trn3": 0.25},
    "vector_double_pace": {"trn1": 0.5, "trn2": 0.5, "trn3": 0.5},
    "vector_two_inputs_pace": {"trn1": 2},
    "strided_pace": {"trn1": 2},
    "scan_pace": {"trn1": 2, "trn2": 2, "trn3": 2},
    "bn_aggr_pace": {"trn1": 13 / 3, "trn2": 13 / 3, "trn3": 13 / 3},
    "reciprocal_cycles": {"trn1": 8},
    "transpose_fp32_cycles": {"trn1": 4},
    "exponential_pace": {"trn3": 0.25},
    "scalar_double_pace": {"trn3": 0.5},
    "background_transpose": {"trn3": 0.5},
    "topk_pace": {"trn1": 4, "trn2": 4, "trn3": 4},
}


@pytest.mark.parametrize("name", DOCUMENTED)
def test_the_pace_of_an_engine_is_the_documented_one(name):
    for target, pace in DOCUMENTED[name].items():
        assert getattr(machine(target), name) == pace and constants(target)[name].mark == "documented"

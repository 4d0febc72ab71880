"""Costs of the other instructions, on the documented engine in the documented number of cycles."""

import csv
import re

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from trninfer.benchmarks.measurements import DATA, load_instruction_rows
from trninfer.simulator.instructions.core import NeuronCore, running
from trninfer.simulator.machine.chip import find_target

VECTOR_GHZ, GPSIMD_GHZ = find_target("trn2").vector_ghz, find_target("trn2").gpsimd_ghz


def issued(issue, free, target="trn2"):
    core = NeuronCore(find_target(target), functional=False)
    with running(core):
        issue(free)
        return core.program[-1]


def tile(free, dtype=nl.float32, partitions=16):
    return nl.ndarray((partitions, free), dtype)


ISSUES = {  # instruction: engine, cycles for each further element of the free axis
    "tensor_tensor_scan": (
        lambda n: nisa.tensor_tensor_scan(tile(n), tile(n), tile(n), 0.0, nl.add, nl.add),
        *("vector", 2),
    ),
    "tensor_scalar_reduce": (lambda n: nisa.tensor_scalar_reduce(tile(n), tile(n), nl.add, 1.0, nl.add), "vector", 1),
    "bn_stats": (lambda n: nisa.bn_stats(tile(6), tile(n)), "vector", 1),
    "bn_aggr": (lambda n: nisa.bn_aggr(tile(2), tile(n)), "vector", 13 / 3),
    "nc_stream_shuffle": (lambda n: nisa.nc_stream_shuffle(tile(n), tile(n), list(range(16)) * 2), "vector", 1),
    "affine_select": (lambda n: nisa.affine_select(tile(n), [[1, n]], 0, tile(n), 0.0), "gpsimd", 1),
    "topk": (lambda n: nisa.topk(tile(8, nl.bfloat16), tile(8, nl.uint32), tile(n, nl.bfloat16), n), "gpsimd", 4),
}


@pytest.mark.parametrize("name", ISSUES)
def test_engine_and_cycles(name):
    issue, engine, cycles = ISSUES[name]
    short, long = issued(issue, 96), issued(issue, 480)
    assert short.engine.name == engine
    ghz = VECTOR_GHZ if engine == "vector" else GPSIMD_GHZ
    assert long.cost.latency - short.cost.latency == pytest.approx(384 * cycles / ghz)


def test_gpsimd_takes_64_cycles_and_177_ns_beside_its_elements():
    """The minimum interval is documented; the time until the result can be read comes from a third party."""
    cost = issued(ISSUES["affine_select"][0], 96).cost
    assert cost.interval == pytest.approx((96 + 64) / GPSIMD_GHZ)
    assert cost.latency == pytest.approx(96 / GPSIMD_GHZ + 177, abs=1)


def test_scan_takes_what_was_measured():
    # 158 + 2.08 ns per element on trn2: a third party's fit to hardware profiles.
    issue = ISSUES["tensor_tensor_scan"][0]
    for free in (256, 512, 2048):
        assert issued(issue, free).cost.latency == pytest.approx(158 + 2.08 * free, rel=0.1)


@pytest.mark.parametrize("row", ["i04", "i05", "i09", "i11"])
def test_intervals_of_matmuls_are_as_measured(row):
    """Within 0.6 ns: an incorrect gap between matmuls is visible here, but not in whole kernels."""
    measured = next(one for one in load_instruction_rows() if one.id == row)
    columns = int(re.search(r"N(\d+)", measured.shapes)[1])
    dtype = {"fp16": nl.float16, "bf16": nl.bfloat16, "fp32": nl.float32}[measured.dtype]
    instructions = 2 if measured.dtype == "fp32" else 1  # the rows describe single instructions

    def matmul(n):
        nisa.nc_matmul(nl.ndarray((128, n), nl.float32, nl.psum), tile(128, dtype, 128), tile(n, dtype, 128))

    interval = issued(matmul, columns).cost.interval / instructions
    assert interval == pytest.approx(1000 * measured.latency_us, abs=0.6)


@pytest.mark.parametrize(("outputs", "columns"), [(128, 1), (10, 1), (1, 1), (10, 16), (1, 63)])
def test_no_matmul_follows_faster_than_the_fastest_measured(outputs, columns):
    with (DATA / "measured" / "instruction-timings.csv").open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["opcode"] == "matmul"]
    fastest = min(float(row["matmul_to_matmul_p10"]) for row in rows if int(row["matmul_to_matmul_n"] or 0) >= 30)

    def matmul(_):
        out = nl.ndarray((outputs, columns), nl.float32, nl.psum)
        nisa.nc_matmul(out, tile(outputs, nl.bfloat16, 128), tile(columns, nl.bfloat16, 128))

    def transposed(_):
        nisa.nc_transpose(nl.ndarray((outputs, columns), nl.bfloat16, nl.psum), tile(outputs, nl.bfloat16, columns))

    for issue in (matmul, transposed):
        assert issued(issue, 0).cost.interval >= fastest


def test_exponential_is_four_times_as_fast_as_the_scalar_engine():
    def scalar(n):
        nisa.activation(tile(n), nl.exp, tile(n))

    def vector(n):
        nisa.exponential(tile(n), tile(n))

    def slope(issue):
        return issued(issue, 2048, "trn3").cost.latency - issued(issue, 1024, "trn3").cost.latency

    assert slope(scalar) / slope(vector) == pytest.approx(4)


def test_dma_compute_moves_every_source():
    def add(count):
        def issue(n):
            sources = [nl.ndarray((16, n), nl.float32, nl.shared_hbm) for _ in range(count)]
            nisa.dma_compute(tile(n), sources, nl.add)

        return issue

    two, four = issued(add(2), 512), issued(add(4), 512)
    assert four.dma.bytes == 2 * two.dma.bytes and two.hbm_bytes == 2 * 16 * 512 * 4
    assert np.isclose(issued(add(2), 512, "trn3").dma.bytes * 2, two.dma.bytes)


def test_transposes_of_trn3_run_in_the_background():
    """Consecutive transposes take half the time; a single one takes the same as before."""

    def transposed(n):
        nisa.nc_transpose(nl.ndarray((128, 128), nl.bfloat16, nl.psum), nl.ndarray((128, 128), nl.bfloat16))

    before, now = issued(transposed, 0, "trn2").cost, issued(transposed, 0, "trn3").cost
    assert now.latency == before.latency
    assert before.interval - now.interval == pytest.approx(64 / find_target("trn3").tensor_ghz)


@pytest.mark.parametrize(("dtype", "pace"), [(nl.bfloat16, 0.5), (nl.float32, 1.0)])
@pytest.mark.parametrize("operand", [2.0, "column"])
def test_trn3s_scalar_engine_does_16_bits_twice_as_fast(dtype, pace, operand):
    def scaled(n):
        factor = tile(1) if operand == "column" else operand
        nisa.tensor_scalar(tile(n, dtype), tile(n, dtype), nl.multiply, factor, engine=nisa.engine.scalar)

    ghz = find_target("trn3").scalar_ghz
    longer, shorter = issued(scaled, 1024, "trn3").cost, issued(scaled, 512, "trn3").cost
    assert longer.interval - shorter.interval == pytest.approx(512 * pace / ghz)
    assert longer.latency - shorter.latency == pytest.approx(512 * pace / ghz)


@pytest.mark.parametrize(("target", "dtype", "pace"), [("trn2", nl.float8_e4m3, 1), ("trn3", nl.float8_e4m3, 0.5)])
def test_trn3_combines_two_tiles_of_8_bit_floats_as_fast_as_of_16_bits(target, dtype, pace):
    # Trainium3's guide: 512 elements per cycle for BF16, FP16 and FP8, 256 for other types.
    def two(n, of):
        nisa.tensor_tensor(tile(n, of), tile(n, of), tile(n, of), op=nl.add)

    for of, expected in ((dtype, pace), (nl.bfloat16, 0.5), (nl.float32, 1)):
        short, long = issued(lambda n, of=of: two(n, of), 96, target), issued(lambda n, of=of: two(n, of), 480, target)
        assert long.cost.latency - short.cost.latency == pytest.approx(384 * expected / find_target(target).vector_ghz)

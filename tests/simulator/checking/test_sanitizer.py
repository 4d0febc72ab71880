"""The sanitizer detects faults injected into our kernels one at a time, and reports none otherwise."""

from collections import Counter
from contextlib import contextmanager

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from trninfer import kernels, simulator
from trninfer.simulator import NkiValidationError, TensorSpec
from trninfer.simulator.checking.sanitizer import KINDS


def spec(*shape):
    return TensorSpec(shape, "float32")


@nki.jit
def exchanged(a):
    """Each core writes half of a shared tensor and adds the other half, in pieces, three times."""
    rank = nl.program_id(0)
    out = nl.ndarray(a.shape, a.dtype, nl.shared_hbm)
    for turn in range(a.shape[0]):
        shared = nl.ndarray(a.shape[1:], a.dtype, nl.shared_hbm)
        mine, theirs = nl.ndarray(a.shape[2:], a.dtype), nl.ndarray(a.shape[2:], a.dtype)
        nisa.dma_copy(mine, a[turn, rank])
        nisa.dma_copy(shared[rank], mine)
        nisa.core_barrier(shared, (0, 1))
        nisa.dma_copy(theirs, shared[1 - rank])
        nisa.tensor_tensor(mine, mine, theirs, nl.add)
        nisa.dma_copy(out[turn, rank], mine)
    return out


CASES = {
    "vector_add_tiled": (kernels.vector_add_tiled, (spec(700), spec(700)), {}),
    "vector_add_direct_allocation": (
        kernels.vector_add_direct_allocation,
        (spec(128 * 90), spec(128 * 90)),
        {"free": 10, "tiles": 3},
    ),
    "transpose": (kernels.transpose, (spec(200, 300),), {}),
    "matmul_tiled": (kernels.matmul_tiled, (spec(300, 140), spec(300, 600)), {}),
    "matmul_hoist_load": (kernels.matmul_hoist_load, (spec(300, 140), spec(300, 600)), {}),
    "matmul_fully_optimized": (kernels.matmul_fully_optimized, (spec(300, 140), spec(300, 600)), {}),
    "softmax": (kernels.bias_activation, (spec(300, 70), spec(1, 70)), {"activation": "softmax"}),
    "ffnn": (kernels.ffnn_forward, (spec(130, 64), spec(64, 140), spec(1, 140), spec(140, 10), spec(1, 10)), {}),
    "exchanged": (exchanged[2], (spec(3, 2, 16, 8),), {}),
}


def launch(case):
    kernel, arguments, parameters = CASES[case]
    return simulator.run(kernel, *arguments, functional=False, sanitize=True, **parameters)


class Injection:
    """Counts the calls of nki functions; `fault(name, number, original, args)` may replace one of them."""

    def __init__(self, fault=None):
        self.fault = fault
        self.calls = []  # (name, bound arguments) in order
        self.delayed = []

    def wrap(self, name, original):
        def function(*args, **kwargs):
            number = len(self.calls)
            self.calls.append((name, args, kwargs))
            waiting = []
            if name != "ndarray":
                waiting, self.delayed = self.delayed, []
            result = self.fault(self, number, original, args, kwargs) if self.fault else original(*args, **kwargs)
            for late, its_args, its_kwargs in waiting:
                late(*its_args, **its_kwargs)
            return result

        return function


@contextmanager
def injected(injection):
    """Make kernels call nki functions through the injection."""
    names = ("dma_copy", "nc_matmul", "tensor_tensor", "tensor_scalar", "activation", "core_barrier")
    kept = [(nisa, name, getattr(nisa, name)) for name in names] + [(nl, "ndarray", nl.ndarray)]
    for module, name, original in kept:
        setattr(module, name, injection.wrap(name, original))
    try:
        yield
    finally:
        for module, name, original in kept:
            setattr(module, name, original)


def operand(args, kwargs, position, name):
    return kwargs[name] if name in kwargs else args[position]


def at(number, change):
    """Return a fault that applies change(injection, original, args, kwargs) to the call with that number."""

    def fault(injection, current, original, args, kwargs):
        return change(injection, original, args, kwargs) if current == number else original(*args, **kwargs)

    return fault


def left_out(injection, original, args, kwargs):
    return None


def too_late(injection, original, args, kwargs):
    """Delay a call until after the next instruction."""
    injection.delayed.append((original, args, kwargs))


def flag_turned(injection, original, args, kwargs):
    return original(*args, **{**kwargs, "accumulate": not kwargs["accumulate"]})


def cut_short(injection, original, args, kwargs):
    """Remove the last partition of both operands of a matmul."""
    rows = kwargs["stationary"].shape[0] - 1
    pieces = {name: kwargs[name].slice(0, 0, rows) for name in ("stationary", "moving")}
    return original(*args, **{**kwargs, **pieces})


def moved_onto(address):
    def change(injection, original, args, kwargs):
        return original(*args, **{**kwargs, "address": address})

    return change


def takes(args, kwargs, tensor):
    """Return True if a call has the tensor as an input."""
    inputs = [*args[1:], *[value for name, value in kwargs.items() if name != "dst"]]
    return any(isinstance(value, nl.NkiTensor) and value.access.overlaps(tensor.access) for value in inputs)


def faults():
    """Yield (case, what, fault) for every fault that is incorrect in any context of the kernel."""
    for case in CASES:
        injection = Injection()
        with injected(injection):
            assert not launch(case).findings
        placed = None
        for number, (name, args, kwargs) in enumerate(injection.calls):
            if name == "ndarray" and kwargs.get("address") is not None:
                if placed is not None and placed[0] == number - 1 and placed[2] == 0:
                    yield case, "address", at(number, moved_onto(placed[1]))  # moves the second operand onto the first
                placed = (number, kwargs["address"], 0 if placed is None or placed[2] == 2 else placed[2] + 1)
            elif name == "nc_matmul":
                if "accumulate" in kwargs:
                    yield case, "flag", at(number, flag_turned)
                whole = all(kwargs[o].shape[0] == kwargs[o].storage.shape[0] > 1 for o in ("stationary", "moving"))
                if whole and not kwargs.get("is_transpose"):
                    yield case, "cut short", at(number, cut_short)
            elif name == "core_barrier":
                yield case, "order", at(number, left_out)
            elif name != "ndarray":
                dst = operand(args, kwargs, 0, "dst")
                if takes(args, kwargs, dst):
                    continue  # in place: without it, the tile keeps its previous contents
                yield case, "left out", at(number, left_out)
                following = next((call for call in injection.calls[number + 1 :] if call[0] != "ndarray"), None)
                if following is not None and takes(*following[1:], dst):
                    yield case, "order", at(number, too_late)


@pytest.mark.slow
def test_at_least_99_of_100_injected_faults_are_found():
    injected_faults, found, missed = Counter(), Counter(), []
    for number, (case, what, fault) in enumerate(list(faults())):
        injected_faults[what] += 1
        try:
            with injected(Injection(fault)):
                findings = launch(case).findings
            seen = bool(findings)
            assert all(finding.kind in KINDS and finding.line and finding.bytes > 0 for finding in findings)
        except NkiValidationError:  # a limit of the machine or a deadlock, which is reported even without the sanitizer
            seen = True
        found[what] += seen
        if not seen:
            missed.append((number, case, what))
    total = sum(injected_faults.values())
    assert total >= 200 and min(injected_faults.values()) >= 6, injected_faults
    assert sum(found.values()) >= 0.99 * total, missed


def only(kernel, *arrays, **options):
    (finding,) = simulator.run(kernel, *arrays, sanitize=True, **options).findings
    return finding


A = np.ones((128, 8), np.float32)


def test_a_finding_names_both_lines_the_bytes_and_why():
    @nki.jit
    def kernel(a):
        first = nl.ndarray((128, 8), nl.float32, nl.sbuf, address=(0, 0))
        second = nl.ndarray((128, 8), nl.float32, nl.sbuf, address=(0, 16))
        nisa.dma_copy(first, a)
        nisa.dma_copy(second, a)
        out = nl.ndarray(a.shape, a.dtype, nl.shared_hbm)
        nisa.tensor_tensor(second, second, second, nl.add)
        nisa.dma_copy(out, second)
        return out

    finding = only(kernel, A)
    line = kernel.function.__code__.co_firstlineno
    assert finding.kind == "lost" and finding.bytes == 128 * 16
    assert finding.line == f"{__file__}:{line + 5}" and finding.other == f"{__file__}:{line + 4}"
    assert str(finding).startswith(f"{finding.line}: lost: dma_copy overwrites ") and "(2048 bytes)" in str(finding)


def test_unwritten_output_is_reported():
    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, a.dtype, nl.shared_hbm)
        nisa.dma_copy(out[0:100], nl.load(a)[0:100])
        return out

    finding = only(kernel, A)
    assert finding.kind == "unwritten" and finding.bytes == 28 * 8 * 4


@nki.jit
def sums_in_one_tile(a, told=False):
    """Compute a.T @ a for each of a's blocks, one after the other, in one tile of PSUM."""
    out = nl.ndarray((a.shape[0], a.shape[2], a.shape[2]), nl.float32, nl.shared_hbm)
    total = nl.ndarray(out.shape[1:], nl.float32, nl.psum)
    for block in range(a.shape[0]):
        tile = nl.load(a[block])
        for turn in range(2):
            nisa.nc_matmul(total, tile, tile, accumulate=turn > 0 if told else None)
        sums = nl.ndarray(total.shape, total.dtype)
        nisa.tensor_copy(sums, total)
        nisa.dma_copy(out[block], sums)
    return out


@pytest.mark.parametrize("functional", [True, False])
def test_an_accumulation_that_continues_after_a_read_is_reported(functional):
    a = np.ones((3, 16, 8), np.float32)
    run = simulator.run(sums_in_one_tile, a, functional=functional, sanitize=True)
    (finding,) = run.findings
    assert finding.kind == "resumed" and finding.line == finding.other
    assert "nc_matmul adds to psum[8, 8] float32, a sum that was already read: accumulate=False starts" in str(finding)
    assert not functional or run.outputs[0][:, 0, 0].tolist() == [32.0, 64.0, 96.0]
    assert not simulator.run(sums_in_one_tile, a, functional=functional, sanitize=True, told=True).findings
    assert not simulator.run(sums_in_one_tile, a[:1], functional=functional, sanitize=True).findings


def test_a_race_names_both_cores():
    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, a.dtype, nl.shared_hbm)
        nisa.dma_copy(out, nl.load(a))
        return out

    finding = only(kernel[2], A)
    assert finding.kind == "race" and "core 1's dma_copy writes" in finding.why and "core 0 uses too" in finding.why
    assert not simulator.run(kernel, A, sanitize=True).findings


def test_a_cleared_tile_may_be_written_over_and_a_result_thrown_away():
    @nki.jit
    def kernel(a):
        tile, total = nl.zeros((128, 9), nl.float32), nl.ndarray((128, 1), nl.float32)
        nisa.dma_copy(tile[:, 0:8], a)
        nothing = nl.ndarray((128, 1), nl.float32)
        nisa.activation_reduce(nothing.ap(pattern=[[1, 128], [0, 9]]), nl.exp, tile, nl.add, total)
        out = nl.ndarray((128, 1), a.dtype, nl.shared_hbm)
        nisa.dma_copy(out, total)
        return out

    assert not simulator.run(kernel, A, sanitize=True).findings


@nki.jit
def forgetful(a, how):
    """Write a tile, and read it in the way that `how` names, or not at all."""
    out, tile = nl.ndarray((128, 8), a.dtype, nl.shared_hbm), nl.load(a)
    other, total = nl.ndarray((128, 8), nl.float32), nl.ndarray((128, 1), nl.float32)
    if how == "fill":
        nisa.memset(other, 1.0)
    elif how == "total":
        nisa.activation_reduce(other, nl.exp, tile, nl.add, total)
        nisa.tensor_scalar(tile, tile, nl.add, total)
    else:
        nisa.tensor_scalar(other, tile, nl.add, 1.0)
        if how == "part":
            nisa.tensor_copy(tile[:, 0:1], other[:, 0:1])
    nisa.dma_copy(out, tile)
    return out


@pytest.mark.parametrize(("how", "found"), [("nothing", 1), ("fill", 0), ("part", 0), ("total", 0)])
def test_a_tile_that_nothing_reads_is_reported(how, found):
    findings = simulator.run(forgetful, A, how=how, sanitize=True).findings
    assert [(f.kind, f.bytes) for f in findings] == [("dead store", 128 * 8 * 4)] * found


@pytest.mark.parametrize("functional", [True, False])
def test_the_sanitizer_changes_neither_values_nor_times(functional):
    kernel, arguments, parameters = CASES["matmul_tiled"]
    arrays = [np.ones(a.shape, np.float32) for a in arguments] if functional else arguments
    plain, checked = (
        simulator.run(kernel, *arrays, functional=functional, sanitize=sanitize, **parameters)
        for sanitize in (False, True)
    )
    assert plain.latency_us == checked.latency_us and plain.findings == []
    if functional:
        assert np.array_equal(plain.outputs[0], checked.outputs[0])


@nki.jit
def turned_by_a_part_of_the_identity(a):
    """Transpose a few rows by a product with a slice of the identity."""
    rows, columns = a.shape
    identity = nl.shared_identity_matrix(128, dtype=a.dtype)
    tile, result = nl.ndarray(a.shape, a.dtype), nl.ndarray((columns, rows), nl.float32)
    nisa.dma_copy(tile, a)
    bank = nl.ndarray((columns, rows), nl.float32, nl.psum)
    nisa.nc_matmul(bank, tile, identity[0:rows, 0:rows], accumulate=False)
    nisa.tensor_copy(result, bank)
    out = nl.ndarray((columns, rows), nl.float32, nl.shared_hbm)
    nisa.dma_copy(out, result)
    return out


def test_a_part_of_the_identity_is_an_identity():
    run = simulator.run(turned_by_a_part_of_the_identity, np.ones((4, 8), np.float32), sanitize=True)
    assert run.findings == []


@nki.jit
def moved_by_a_part_of_a_shifted_identity(a):
    """Move a few rows by a product with rows of an identity matrix between zeros."""
    rows = a.shape[0]
    shifted, tile = nl.ndarray((128, 384), a.dtype), nl.ndarray(a.shape, a.dtype)
    nisa.memset(shifted, 0.0)
    nisa.tensor_copy(shifted[:, 128:256], nl.shared_identity_matrix(128, dtype=a.dtype))
    nisa.dma_copy(tile, a)
    bank, result = nl.ndarray(a.shape, nl.float32, nl.psum), nl.ndarray(a.shape, nl.float32)
    nisa.nc_matmul(bank, shifted[0:rows, 128 : 128 + rows], tile, accumulate=False)
    nisa.tensor_copy(result, bank)
    out = nl.ndarray(a.shape, nl.float32, nl.shared_hbm)
    nisa.dma_copy(out, result)
    return out


def test_a_part_of_a_copied_identity_is_an_identity():
    a = np.arange(32, dtype=np.float32).reshape(4, 8)
    run = simulator.run(moved_by_a_part_of_a_shifted_identity, a, sanitize=True)
    assert run.findings == [] and np.array_equal(run.outputs[0], a)


@nki.jit
def nine_banks_in_turn(a):
    out, tile = nl.ndarray(a.shape, a.dtype, nl.shared_hbm), nl.ndarray(a.shape, a.dtype)
    nisa.dma_copy(tile, a)
    for _ in range(9):
        bank = nl.ndarray(a.shape, a.dtype, nl.psum)
        nisa.tensor_copy(bank, tile)
        nisa.tensor_copy(tile, bank)
    nisa.dma_copy(out, tile)
    return out


def test_tiles_are_freed_as_without_the_sanitizer():
    assert simulator.run(nine_banks_in_turn, np.ones((4, 512), np.float32), sanitize=True).findings == []

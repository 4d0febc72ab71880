"""The numeric sanitizer detects faults injected into kernels one at a time, and reports none otherwise."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from trninfer import simulator
from trninfer.simulator import NkiValidationError
from trninfer.simulator.checking.numeric import KINDS

X = np.linspace(1, 2, 128 * 64, dtype=np.float32).reshape(128, 64)


def _store(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def activated(x, op, dtype):
    tile = nl.load(x)
    result = nl.ndarray(tile.shape, dtype=dtype, buffer=nl.sbuf)
    nisa.activation(dst=result, op=op, data=tile)
    nisa.tensor_copy(dst=result, src=result)
    return _store(result)


@nki.jit
def scaled(x, factor, dtype):
    tile = nl.load(x)
    result = nl.ndarray(tile.shape, dtype=dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=result, data=tile, op0=nl.multiply, operand0=factor)
    return _store(result)


@nki.jit
def multiplied(x):
    tile = nl.load(x)
    sums = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.psum)
    for turn in range(2):
        nisa.nc_matmul(dst=sums, stationary=tile, moving=tile, accumulate=turn > 0)
    return _store(nl.copy(sums))


@nki.jit
def viewed(x, offset):
    tile = nl.load(x)
    part = nl.ndarray((128, 4), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=part, src=tile[:, 8:16].ap([[64, 128], [1, 4]], offset=offset))
    return _store(part)


@nki.jit
def scattered(x, rows):
    out = nl.ndarray((256, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    nothing = nl.zeros((128, 64), dtype=x.dtype, buffer=nl.sbuf)
    for half in range(2):
        nisa.dma_copy(dst=out[128 * half : 128 * half + 128], src=nothing)
    view = out.ap([[64, 128], [1, 64]], vector_offset=nl.load(rows), indirect_dim=0)
    nisa.dma_compute(dst=view, srcs=[nl.load(x), view], reduce_op=nl.add)
    return out


def rows(*changes):
    found = np.arange(128, dtype=np.int32).reshape(128, 1)
    for at, row in changes:
        found[at] = row
    return found


def findings(kernel, *arguments, **options):
    return simulator.run(kernel, *arguments, sanitize="numeric", **options).findings


def at(value, kind=np.float32):
    """Return an array of ones, except for one element."""
    found = np.ones((128, 64), kind)
    found[3, 5] = value
    return found


FAULTS = [
    ("nan", activated, (at(-1.0), nl.sqrt, nl.float32), "activation computes nan", "at [3, 5] from -1"),
    ("infinity", activated, (at(90.0), nl.exp, nl.float32), "activation computes inf", "at [3, 5] from 90"),
    ("infinity", scaled, (at(1e30), 1e20, nl.float32), "tensor_scalar computes inf", "from 1e+30"),
    ("saturation", scaled, (at(70.0), 1000.0, nl.float16), "writes 70000.0", "becomes inf"),
    ("saturation", scaled, (at(300.0), 1.0, nl.float8_e4m3), "writes 300.0", "at most 240"),
    ("saturation", scaled, (at(-200.0), 1.0, nl.int8), "writes -200.0", "becomes -128"),
    ("inexact", scaled, (at(16777217, np.int32), 1, nl.int32), "reads 16777217", "as float32 16777216"),
    ("inexact", scaled, (at(16777213, np.int32), 3.0, nl.int32), "computes 50331640", "beyond 2^24"),
    ("duplicate", scattered, (X, rows((5, 4))), "index 4 2 times", "one sum is lost"),
    ("base offset", viewed, (X, 2), "ap(offset=2)", "that of the view (10)"),
]


@pytest.mark.parametrize("kind, kernel, arguments, what, more", FAULTS)
def test_a_planted_fault_is_found_with_its_value_and_line(kind, kernel, arguments, what, more):
    with np.errstate(all="ignore"):
        (found,) = findings(kernel, *arguments)
    assert found.kind == kind and what in found.why and more in found.why, found
    assert found.line.startswith(__file__)
    assert simulator.run(kernel, *arguments, sanitize="memory").findings == []


@pytest.mark.parametrize(
    "kernel, arguments",
    [
        (activated, (X, nl.exp, nl.bfloat16)),
        (activated, (at(np.nan), nl.sqrt, nl.float32)),  # passed by the caller
        (activated, (at(np.inf), nl.copy, nl.float16)),
        (scaled, (at(65519.0), 1.0, nl.float16)),  # rounds to 65504
        (scaled, (at(127.4), 1.0, nl.int8)),
        (scaled, (at(16777216, np.int32), 1, nl.int32)),
        (multiplied, (X,)),
        (scattered, (X, rows((5, 200)))),
        (viewed, (X, None)),
    ],
)
def test_numbers_that_fit_are_no_fault(kernel, arguments):
    assert findings(kernel, *arguments) == []


def test_every_kind_has_a_fault_above():
    assert {kind for kind, *_ in FAULTS} == set(KINDS)


def test_matmuls_that_write_in_place_are_checked():
    (found,) = findings(multiplied, at(3e38))
    assert found.kind == "infinity" and "nc_matmul" in found.why


def test_both_sanitizers_at_once_and_neither():
    run = simulator.run(activated, at(-1.0), nl.sqrt, nl.float32, sanitize="all")
    assert [found.kind for found in run.findings] == ["nan"]
    assert simulator.run(activated, at(-1.0), nl.sqrt, nl.float32).findings == []
    with pytest.raises(NkiValidationError, match=r"sanitize must be one of True, False, 'memory', .*, got 'speed'"):
        simulator.run(activated, X, nl.sqrt, nl.float32, sanitize="speed")


def test_values_are_the_same_with_it_and_without():
    plain = simulator.run(multiplied, X).outputs[0]
    np.testing.assert_array_equal(simulator.run(multiplied, X, sanitize="numeric").outputs[0], plain)
    twice = simulator.run(multiplied, X, sanitize="all")
    np.testing.assert_array_equal(twice.outputs[0], plain)


@nki.jit
def counted(offset, dtype):
    tile = nl.ndarray((128, 64), dtype, nl.sbuf)
    nisa.iota(tile, [[1, 64]], offset=offset, channel_multiplier=0)
    return _store(tile)


@pytest.mark.parametrize(
    ("offset", "dtype", "found"),
    [
        ((1 << 24) - 64, nl.float32, []),
        ((1 << 24) - 32, nl.float32, ["inexact"]),
        (-(1 << 25), nl.float32, ["inexact"]),
        ((1 << 24) - 32, nl.int32, []),
        (1000, nl.bfloat16, []),  # rounds like any number stored in 16 bits
    ],
)
def test_counting_beyond_what_a_float_counts(offset, dtype, found):
    run = simulator.run(counted, offset=offset, dtype=dtype, sanitize="numeric")
    assert [finding.kind for finding in run.findings] == found

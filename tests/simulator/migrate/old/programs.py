"""Launch grids, gathers and reducing loops, in the first NKI."""

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np


@nki.jit
def added_by_programs(a, b):
    """Compute a + b, with one tile of 128 x 256 per program."""
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    row = nl.program_id(0) * 128 + nl.arange(128)[:, None]
    column = nl.program_id(1) * 256 + nl.arange(256)[None, :]
    total = nl.load(a[row, column]) + nl.load(b[row, column])
    nl.store(out[row, column], value=total)
    return out


def added(a, b):
    return added_by_programs[a.shape[0] // 128, a.shape[1] // 256](a, b)


@nki.jit
def rows_taken(table, numbers):
    """Return table[numbers] for up to 128 numbers."""
    count = numbers.shape[0]
    out = nl.ndarray((count, table.shape[1]), dtype=table.dtype, buffer=nl.shared_hbm)
    which = nl.load(numbers[nl.arange(count)[:, None]])
    column = nl.arange(table.shape[1])[None, :]
    nl.store(out, nl.load(table[which, column]))
    return out


@nki.jit
def positions(rows):
    """Compute p * 10 + j, and the maximum over rows of tiles in a reducing loop."""
    out = nl.ndarray((rows, 4), dtype=nl.int32, buffer=nl.shared_hbm)
    p, j = nl.arange(rows)[:, None], nl.arange(4)[None, :]
    nl.store(out[p, j], nisa.iota(p * 10 + j, dtype=nl.int32))
    return out


def check():
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal((256, 512)).astype(np.float32) for _ in range(2))
    np.testing.assert_allclose(added(a, b), a + b, rtol=1e-6)
    table = rng.standard_normal((300, 16)).astype(np.float32)
    numbers = rng.integers(0, 300, 100).astype(np.int32)
    np.testing.assert_array_equal(nki.simulate_kernel(rows_taken, table, numbers), table[numbers])
    expected = np.arange(5)[:, None] * 10 + np.arange(4)
    np.testing.assert_array_equal(nki.simulate_kernel(positions, 5), expected)

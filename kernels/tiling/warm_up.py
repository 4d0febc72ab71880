"""Warm up the Tensor Engine to its full clock rate before the first useful matmul.

On NeuronCore-v3 and later, the engine runs at half its clock rate until it has been busy for some time; the clock is
adjusted window by window (documented on the profiler's overview page; the windows are visible in public profiles). A
kernel waits for its first loads for about as long. Meanwhile, the engine can multiply zeros into the PSUM tile of the
first sums, which then accumulate on top of the zeros.

Later, while the engine waits for other engines, it can maintain its clock rate in the same way. Each matmul then
multiplies only a few zeros, so that useful matmuls that become ready are not delayed.
"""

import nki.isa as nisa
import nki.language as nl

from .tiles import PARTITIONS, reshaped, several_columns

COLUMNS = 1024  # columns of zeros per byte of an element; multiplying by them takes about as long as the first loads
LEAST_WORK = 4  # a kernel warms up only if it multiplies at least this many columns for each column of zeros


def is_worth_warming(columns, item_bytes):
    """True if matmuls with `columns` columns in total are enough work to make a warm-up worthwhile."""
    return columns >= LEAST_WORK * COLUMNS * item_bytes


def warm_up(bank, item_bytes, zeros=None):
    """Fill a float32 PSUM tile [partitions, columns], up to 128 x 512, with zeros by matmuls.

    Return True if it was filled.

    `item_bytes` is the size of an element of the data that is loaded in the meantime. `zeros` is a tile from
    `make_zeros`, or None to create one. Returns False without issuing instructions on NeuronCore-v2, whose clock is not
    throttled.
    """
    if not is_throttled():
        return False
    columns = bank.shape[1]
    zeros = make_zeros(columns) if zeros is None else zeros
    multiply_zeros(bank, zeros, max(1, COLUMNS * item_bytes // columns), columns)
    return True


def is_throttled():
    """True if the clock rate depends on the recent load of the engine, as on NeuronCore-v3 and later."""
    return nisa.get_nc_version() != nisa.nc_version.gen2


def make_zeros(columns, name=""):
    """Return a tile of zeros that fills the systolic array, for PSUM tiles of up to `columns` columns."""
    zeros = nl.ndarray((PARTITIONS, max(columns, PARTITIONS)), dtype=nl.bfloat16, buffer=nl.sbuf, name=name)
    nisa.memset(dst=zeros, value=0.0, engine=nisa.engine.vector)
    return zeros


def multiply_zeros(bank, zeros, count, columns):
    """Fill a PSUM tile [partitions, columns] with zeros by a matmul, and add `count` - 1 additional products of zeros
    to
    its first `columns` columns."""
    partitions = bank.shape[0]
    for n in range(count):
        part = bank if n == 0 else bank[:, 0:columns]
        nisa.nc_matmul(
            dst=part, stationary=zeros[:, 0:partitions], moving=zeros[:, 0 : part.shape[1]], accumulate=n > 0
        )


def bank_for(partitions, columns):
    """Allocate a PSUM tile for zeros, with at least two partitions, since 16-bit operands have at least two columns."""
    return nl.ndarray((several_columns(partitions, nl.bfloat16), columns), dtype=nl.float32, buffer=nl.psum)


def warm_bank(partitions, columns, item_bytes, zeros=None):
    """Return a PSUM tile of zeros from `warm_up` for a kernel's first sums, or None if the clock is not throttled."""
    bank = bank_for(partitions, columns)
    return bank if warm_up(bank, item_bytes, zeros) else None


def psum_tile(shape, warm):
    """Return a float32 PSUM tile with two or three dimensions.

    If `warm`, a bank of zeros, is not None, the tile is a view of it.
    """
    if warm is None:
        return nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum)
    columns = shape[1] * shape[2] if len(shape) == 3 else shape[1]
    return reshaped(warm[0 : shape[0], 0:columns], shape)

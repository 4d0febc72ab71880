"""Brings the Tensor Engine to its full clock before the first useful matmul.

From NeuronCore-v3 on the engine runs at half its clock until it has been busy for a while, decided window by window
(the profiler's overview page documents it, public profiles show the windows). A kernel waits about that long for its
first loads. Meanwhile the engine can multiply zeros into the PSUM tile of the first sums, which then accumulate on
zeros.

Later, when it waits for other engines, it can keep its clock up in the same way, multiplying few zeros at a time so
that work that becomes ready does not wait.
"""

import nki.isa as nisa
import nki.language as nl

from .tiles import PARTITIONS, reshaped, several_columns

COLUMNS = 1024  # columns of zeros per byte of an element: about as long as the first loads take
LEAST_WORK = 4  # a kernel warms up only if it multiplies this many columns for each column of zeros


def is_worth_warming(columns, item_bytes):
    """True if matmuls of `columns` columns in total are enough for a warm start to pay."""
    return columns >= LEAST_WORK * COLUMNS * item_bytes


def warm_up(bank, item_bytes, zeros=None):
    """Fill a PSUM tile [partitions, columns], up to 128 x 512 float32, with zeros by matmuls; return whether it did.

    `item_bytes`: of an element of the data loaded meanwhile. `zeros`: from `make_zeros`, None for new ones. Returns
    False without doing anything on NeuronCore-v2, whose clock is not throttled.
    """
    if not is_throttled():
        return False
    columns = bank.shape[1]
    zeros = make_zeros(columns) if zeros is None else zeros
    multiply_zeros(bank, zeros, max(1, COLUMNS * item_bytes // columns), columns)
    return True


def is_throttled():
    """True if the clock depends on how busy the engine was: from NeuronCore-v3 on."""
    return nisa.get_nc_version() != nisa.nc_version.gen2


def make_zeros(columns, name=""):
    """Return a tile of zeros that fills the array, for PSUM tiles of up to `columns` columns."""
    zeros = nl.ndarray((PARTITIONS, max(columns, PARTITIONS)), dtype=nl.bfloat16, buffer=nl.sbuf, name=name)
    nisa.memset(dst=zeros, value=0.0, engine=nisa.engine.vector)
    return zeros


def multiply_zeros(bank, zeros, count, columns):
    """Fill a PSUM tile [partitions, columns] with zeros by a matmul, and add `count` - 1 products of zeros to its first
    `columns` columns."""
    partitions = bank.shape[0]
    for n in range(count):
        part = bank if n == 0 else bank[:, 0:columns]
        nisa.nc_matmul(
            dst=part, stationary=zeros[:, 0:partitions], moving=zeros[:, 0 : part.shape[1]], accumulate=n > 0
        )


def bank_for(partitions, columns):
    """Allocate a PSUM tile for zeros, with at least two partitions, since matmuls have at least two 16-bit columns."""
    return nl.ndarray((several_columns(partitions, nl.bfloat16), columns), dtype=nl.float32, buffer=nl.psum)


def warm_bank(partitions, columns, item_bytes, zeros=None):
    """Return a PSUM tile of zeros made by `warm_up` for a kernel's first sums; None if warming up does not pay."""
    bank = bank_for(partitions, columns)
    return bank if warm_up(bank, item_bytes, zeros) else None


def psum_tile(shape, warm):
    """Return a float32 PSUM tile of two or three dimensions: a view of `warm`, a bank of zeros, if that is not None."""
    if warm is None:
        return nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum)
    columns = shape[1] * shape[2] if len(shape) == 3 else shape[1]
    return reshaped(warm[0 : shape[0], 0:columns], shape)

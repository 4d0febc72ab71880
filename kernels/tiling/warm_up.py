"""The Tensor Engine at its full clock from the first matmul that counts.

From NeuronCore-v3 on the engine's clock is half until it has been busy for a while, decided window by window (the
profiler's overview page documents it, public profiles show the windows). A kernel waits about that long for its first
loads. Meanwhile the engine can multiply zeros, into the very PSUM tile that the first sums go to: sums that
accumulate on zeros are what they were.

Later, where it waits for other engines, it can keep its clock up in the same way. Zeros are then multiplied a few at a
time: what it waits for may come meanwhile.
"""

import nki.isa as nisa
import nki.language as nl

from .tiles import PARTITIONS, reshaped, several_columns

COLUMNS = 1024  # of zeros for each byte of an element, about as long as the first loads take
LEAST_WORK = 4  # columns that a kernel multiplies itself for each column of zeros, below which it does without


def is_worth_warming(columns, item_bytes):
    """True if matmuls of `columns` columns in all are enough to gain by a warm start."""
    return columns >= LEAST_WORK * COLUMNS * item_bytes


def warm_up(bank, item_bytes, zeros=None):
    """Fill a PSUM tile [partitions, columns], up to 128 x 512 float32, with zeros by matmuls; whether it has.

    `item_bytes`: of an element of what is loaded meanwhile. `zeros`: of `make_zeros`, None for new ones. False, with
    nothing done, on NeuronCore-v2, whose clock is not throttled.
    """
    if not is_throttled():
        return False
    columns = bank.shape[1]
    zeros = make_zeros(columns) if zeros is None else zeros
    multiply_zeros(bank, zeros, max(1, COLUMNS * item_bytes // columns), columns)
    return True


def is_throttled():
    """True where the clock depends on how busy the engine was: from NeuronCore-v3 on."""
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
    """A PSUM tile for zeros, of two partitions at least: products of zeros have as many 16-bit columns."""
    return nl.ndarray((several_columns(partitions, nl.bfloat16), columns), dtype=nl.float32, buffer=nl.psum)


def warm_bank(partitions, columns, item_bytes, zeros=None):
    """A PSUM tile of zeros, as `warm_up` makes it, for a kernel's first sums; None where no warming up is needed."""
    bank = bank_for(partitions, columns)
    return bank if warm_up(bank, item_bytes, zeros) else None


def psum_tile(shape, warm):
    """A tile in PSUM, float32, of two or three dimensions: of `warm`, a bank of zeros, where that is not None."""
    if warm is None:
        return nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum)
    columns = shape[1] * shape[2] if len(shape) == 3 else shape[1]
    return reshaped(warm[0 : shape[0], 0:columns], shape)

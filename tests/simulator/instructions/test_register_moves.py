"""Loading, moving and storing registers."""

import nki.isa as nisa
import nki.language as nl
from nki_tensors import indices


def test_registers_move_load_and_store(core):
    a, b = nisa.register_alloc(-5), nisa.register_alloc()
    nisa.register_move(b, a)
    nisa.register_move(a, 7)
    out = nl.ndarray((1, 1), nl.int32)
    nisa.register_store(out, b)
    assert out.values == -5
    nisa.register_load(b, indices([[200]], nl.uint8))
    nisa.register_store(out, b)
    assert out.values == 200
    number = nl.ndarray((1,), nl.float32, nl.shared_hbm)
    nisa.register_load(b, indices([[1.5]], nl.float32))
    nisa.register_store(number, b)
    assert number.values == 1.5
    nisa.register_move(b, 0x1FF)
    byte = nl.ndarray((1, 1), nl.uint8)
    nisa.register_store(byte, b)
    assert byte.values == 0xFF


def test_one_number_on_chip_may_have_one_dimension(core):
    """The examples of nisa.register_load and register_store; on the chip it is still [1, 1]."""
    bound, register = nl.ones([1], dtype=nl.int32, buffer=nl.sbuf), nisa.register_alloc()
    nisa.register_load(register, bound)
    result = nl.ndarray([1], dtype=nl.int32, buffer=nl.sbuf)
    nisa.register_store(result, register)
    assert result.shape == (1, 1) and result.values == 1

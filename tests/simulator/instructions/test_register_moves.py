"""Registers are loaded, moved and stored."""

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

"""Operations that Python allows on registers and scalars."""

import nki.isa as nisa
import nki.language as nl
import pytest
from nki_tensors import indices, tile
from trninfer.simulator import NkiValidationError


def test_limits_of_registers(core):
    register = nisa.register_alloc()
    with pytest.raises(NkiValidationError, match="never written"):
        nisa.register_store(nl.ndarray((1, 1), nl.int32), register)
    with pytest.raises(NkiValidationError, match="32-bit"):
        nisa.register_move(register, 1 << 32)
    with pytest.raises(NkiValidationError, match="must be one element"):
        nisa.register_load(register, indices([[1, 2]]))
    with pytest.raises(NkiValidationError, match="must be one element"):
        nisa.register_load(register, nl.ndarray((1, 1), nl.int32, nl.psum))
    with pytest.raises(NkiValidationError, match="integer or a register"):
        nisa.register_move(register, 1.5)
    with pytest.raises(NkiValidationError, match=r"register of nisa.register_alloc"):
        nisa.register_move(3, 4)
    for compute in (lambda: register + 1, lambda: register == 0, lambda: int(register), lambda: range(register)):
        with pytest.raises(TypeError, match="a register has a value only on the device"):
            compute()


def test_a_register_is_no_condition(core):
    register = nisa.register_alloc(2)
    with pytest.raises(TypeError, match=r"use nl.while_loop\(register, body\)"):
        assert register


def test_registers_hold_the_bits_of_narrow_floats(core):
    register, out = nisa.register_alloc(), nl.ndarray((1, 1), nl.int32)
    for dtype, bits in ((nl.bfloat16, 0xBFC0), (nl.float16, 0xBE00), (nl.float8_e4m3, 0xBC)):
        nisa.register_load(register, tile([[-1.5]], dtype))
        nisa.register_store(out, register)
        assert out.values == bits

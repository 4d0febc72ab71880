"""What Python may do with registers and scalars."""

import nki.isa as nisa
import nki.language as nl
import pytest
from nki_tensors import indices, tile
from trninfer.simulator import NkiValidationError
from trninfer.simulator.machine import nki_version, registers


def test_limits_of_registers(core):
    register = nisa.register_alloc()
    with pytest.raises(NkiValidationError, match="never written"):
        nisa.register_store(nl.ndarray((1, 1), nl.int32), register)
    with pytest.raises(NkiValidationError, match="32 bits"):
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
        with pytest.raises(TypeError, match="a register has its value on the device only"):
            compute()


def test_a_register_is_a_condition_up_to_0_6_only(core):
    register = nisa.register_alloc(2)
    with pytest.raises(TypeError, match=r"nl.while_loop\(register, body\) runs there"):
        assert register
    with nki_version.using("0.6"):
        assert register and not nisa.register_alloc(0)


def test_a_loop_on_a_register_that_nothing_writes_ends_with_a_message(core, monkeypatch):
    monkeypatch.setattr(registers, "MAX_UNCHANGED", 50)
    with nki_version.using("0.6"):
        register, turns = nisa.register_alloc(60), 0
        while register:  # one that counts down goes on beyond the limit
            turns += 1
            nisa.register_move(register, 60 - turns)
        assert turns == 60
        nisa.register_move(register, 3)
        with pytest.raises(NkiValidationError, match="it is 3 after 50 iterations and the loop runs on"):
            while register:
                turns += 1
        assert turns == 110


def test_registers_hold_the_bits_of_narrow_floats_since_0_7(core):
    register, out = nisa.register_alloc(), nl.ndarray((1, 1), nl.int32)
    for dtype, bits in ((nl.bfloat16, 0xBFC0), (nl.float16, 0xBE00), (nl.float8_e4m3, 0xBC)):
        nisa.register_load(register, tile([[-1.5]], dtype))
        nisa.register_store(out, register)
        assert out.values == bits
    with nki_version.using("0.6"), pytest.raises(NkiValidationError, match="must be one element"):
        nisa.register_load(register, tile([[-1.5]], nl.bfloat16))

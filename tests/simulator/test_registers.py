"""What Python may do with a register."""

import nki.isa as nisa
import nki.language as nl
import pytest
from nki_tensors import indices
from trninfer.simulator import NkiValidationError


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
        with pytest.raises(TypeError):
            compute()

"""Instructions belong in a kernel."""

import nki.language as nl
import pytest
from trninfer.simulator import NkiValidationError


def test_instructions_need_a_kernel():
    with pytest.raises(NkiValidationError, match="inside a kernel"):
        nl.ndarray((4, 4), nl.float32)

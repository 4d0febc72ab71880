"""The targets that can be simulated."""

import nki
import pytest
from trninfer import simulator
from trninfer.simulator import NkiValidationError


def test_unknown_target_is_named():
    with pytest.raises(NkiValidationError, match=r"target must be one of trn1, trn2, trn3.*, got 'trn9'"):
        simulator.run(nki.jit(lambda: None), target="trn9")

"""The version of NKI that holds: chosen, said by the environment, or today's."""

import pytest
from trninfer.simulator import NkiValidationError
from trninfer.simulator.machine.nki_version import VARIABLE, checked, current, is_traced, using


@pytest.mark.parametrize("said, version", [(None, "0.7"), ("custom", "0.6"), ("parser", "0.6"), ("tracer", "0.7")])
def test_the_environment_says_it_where_nobody_else_does(monkeypatch, said, version):
    monkeypatch.delenv(VARIABLE, raising=False)
    if said is not None:
        monkeypatch.setenv(VARIABLE, said)
    assert current() == version and is_traced() == (version == "0.7")
    with using("0.7"):
        assert current() == "0.7"


def test_the_innermost_choice_holds(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    with using("0.6"):
        with using("0.7"), using(None):
            assert current() == "0.7"
        assert current() == "0.6" and not is_traced()
        with pytest.raises(RuntimeError), using("0.7"):
            raise RuntimeError
        assert current() == "0.6"
    assert current() == "0.7"


def test_a_version_that_there_is_not():
    assert [checked(version) for version in ("0.6", "0.7")] == ["0.6", "0.7"]
    with pytest.raises(NkiValidationError, match=r"NKI '0\.8' is not simulated; allowed: 0\.7, 0\.6"), using("0.8"):
        pass
    assert current() == "0.7"

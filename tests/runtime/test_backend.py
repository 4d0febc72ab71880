"""The selected target, and the note beside the times of a backend."""

from typing import get_args

import pytest
from trninfer import simulator
from trninfer.runtime import backend
from trninfer.runtime.backend import BackendInfo, TargetError, latency_note, resolve_target
from trninfer.runtime.launch_options import Dtype, Target


def test_target_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(backend.TARGET_VARIABLE, raising=False)
    assert resolve_target(None) == "trn2"
    monkeypatch.setenv(backend.TARGET_VARIABLE, "gen4")
    assert resolve_target(None) == "trn3"
    assert resolve_target("trn1") == "trn1"
    monkeypatch.setenv(backend.TARGET_VARIABLE, "trn9")
    with pytest.raises(TargetError, match=r"NEURON_PLATFORM_TARGET_OVERRIDE: target must be one of .*trn9"):
        resolve_target(None)


def test_only_the_simulated_trn3_has_a_note() -> None:
    kinds = {name: ("predicted" if name == "sim" else "measured") for name in ("sim", "neuron")}
    notes = {
        (name, target): latency_note(BackendInfo(name, target, kind, kind))
        for name, kind in kinds.items()
        for target in ("trn1", "trn2", "trn3")
    }
    assert [key for key, note in notes.items() if note] == [("sim", "trn3")]
    assert "trn2" in str(notes["sim", "trn3"])


def test_the_words_of_users_are_those_that_run() -> None:
    assert get_args(Dtype) == tuple(backend.NETWORK_DTYPES) and get_args(Target) == tuple(simulator.TARGETS)

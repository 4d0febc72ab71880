"""A machine with PyTorch NeuronX, by stand-ins."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest
from neuron_stand_ins import load_stand_in
from trninfer.runtime.neuron import environment


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """torch and torch_neuronx are the stand-ins, and there is a Neuron device."""
    for name in ("torch", "torch_neuronx"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))  # so that the end of the test puts back what was
    monkeypatch.setattr(environment, "neuron_devices", lambda: ("/dev/neuron0",))
    return SimpleNamespace(torch=load_stand_in("torch"), torch_neuronx=load_stand_in("torch_neuronx"))

"""The backend that a name selects."""

import os

import pytest
from trninfer.kernels import nki_source
from trninfer.runtime import backend
from trninfer.runtime.backend import BackendUnavailable
from trninfer.runtime.choose import Choice, choose_backend, decide
from trninfer.runtime.neuron import backend as neuron
from trninfer.runtime.neuron import environment


@pytest.fixture(autouse=True)
def no_chip(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = environment.Way(None, ("no Neuron device", "nki: not installed"))
    monkeypatch.setattr(environment, "find_way", lambda: missing)
    monkeypatch.setattr(environment, "neuron_devices", lambda: ("/dev/neuron0",))
    monkeypatch.delenv(backend.TARGET_VARIABLE, raising=False)
    monkeypatch.setenv("TRNINFER_BACKEND", "")


def test_auto_selects_the_simulator_with_a_reason() -> None:
    assert decide("auto") == Choice("sim", "no Neuron device; nki: not installed")
    assert decide("sim").backend == "sim"


def test_auto_does_not_search_for_packages_without_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "neuron_devices", lambda: ())
    monkeypatch.setattr(environment, "find_way", lambda: pytest.fail("looked for packages"))
    assert decide("auto") == Choice("sim", environment.NO_DEVICE)


def test_auto_selects_the_chip_if_nothing_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "find_way", lambda: environment.Way("nki.runtime", ()))
    assert decide("auto").backend == decide("neuron").backend == "neuron"
    assert decide("sim").backend == "sim"


def test_auto_honours_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "find_way", lambda: environment.Way("nki.runtime", ()))
    monkeypatch.setenv("TRNINFER_BACKEND", "sim")
    assert decide("auto") == Choice("sim", "TRNINFER_BACKEND=sim")
    assert decide("neuron").backend == "neuron"  # an explicitly named backend takes precedence


def test_options_reach_the_neuron_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "find_way", lambda: environment.Way("nki.runtime", ()))
    monkeypatch.setattr(neuron, "open_neuron_backend", lambda target, **options: (target, options))
    assert choose_backend("auto", "trn3", lnc=2, warmup=3) == ("trn3", {"lnc": 2, "warmup": 3})
    assert choose_backend("sim", warmup=2).info.name == "sim"


def test_neuron_reports_missing_packages_and_how_to_install_them() -> None:
    with pytest.raises(BackendUnavailable, match=r"no Neuron device; nki: not installed .*pip install"):
        choose_backend("neuron")


def test_the_simulator_is_chosen_for_the_kernels_too() -> None:
    chosen = choose_backend("auto", "trn1")
    assert (chosen.info.name, chosen.info.target) == ("sim", "trn1")
    assert os.environ["TRNINFER_BACKEND"] == ""  # read, never written
    assert nki_source.use_nki() == "sim"

"""Opening the chip's backend: which way it takes, what it sets before, and what is told where something is missing."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from neuron_stand_ins import STAND_INS, VARIABLES
from trninfer import kernels
from trninfer.app.errors import NO_BACKEND, exit_status
from trninfer.kernels import nki_source
from trninfer.runtime.backend import BackendUnavailable
from trninfer.runtime.neuron import backend as neuron
from trninfer.runtime.neuron import environment

USE_NKI = nki_source.use_nki


@pytest.fixture
def machine(packages, monkeypatch, tmp_path):
    """A machine on which everything is there: device, packages, the real nki (so it seems), neuron-ls."""
    monkeypatch.setattr(environment, "find_way", lambda elsewhere: environment.Way("torch_neuronx", ()))
    monkeypatch.setattr(nki_source, "use_nki", lambda backend: backend)
    monkeypatch.setenv("PATH", f"{STAND_INS / 'tools'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("TRNINFER_CACHE", str(tmp_path / "cache"))
    for name in VARIABLES:
        monkeypatch.setenv(name, "")  # opening sets these: the end of the test puts back what was
        monkeypatch.delenv(name)
    return packages


def test_opening_prepares_the_environment(machine, tmp_path) -> None:
    backend = neuron.open_neuron_backend(warn=pytest.fail)
    assert backend.info.target == "trn2"  # of the instance that neuron-ls tells
    assert os.environ["NEURON_PLATFORM_TARGET_OVERRIDE"] == "trn2"
    assert os.environ["NEURON_RT_NUM_CORES"] == "1" and os.environ["NEURON_LOGICAL_NC_CONFIG"] == "1"
    launch = backend.launch(kernels.transpose, np.ones((300, 400), np.float32))
    assert (tmp_path / "cache" / "locks").is_dir()
    assert launch.time.hbm_bytes == 2 * 300 * 400 * 4  # counted by the simulator: read once, written once


def test_nrtpy_is_the_way_where_it_is(machine, monkeypatch) -> None:
    monkeypatch.setattr(environment, "find_way", lambda elsewhere: environment.Way("nrtpy", ()))
    monkeypatch.setattr("trninfer.runtime.neuron.nrt.open_nrt", lambda *arguments, **options: (arguments, options))
    (target, python), options = neuron.open_neuron_backend(nrtpy=sys.executable, device_times=True)
    assert (target, python, options["device_times"]) == ("trn2", Path(sys.executable), True)
    with pytest.raises(BackendUnavailable, match="no environment with nrtpy at /nowhere"):
        neuron.open_neuron_backend(nrtpy="/nowhere")


def test_the_packages_are_imported_after_the_environment_is_set(machine, monkeypatch) -> None:
    seen = {}
    monkeypatch.setattr(
        "trninfer.runtime.neuron.pytorch_backend.load_packages", lambda: seen.update(os.environ) or (None, None)
    )
    neuron.open_neuron_backend("trn3")
    assert seen["NEURON_PLATFORM_TARGET_OVERRIDE"] == "trn3" and seen["NEURON_LOGICAL_NC_CONFIG"] == "1"
    assert seen["NEURON_RT_NUM_CORES"] == "1"


def test_what_the_user_has_set_is_kept(machine, monkeypatch) -> None:
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "gen2")
    monkeypatch.setenv("NEURON_RT_VISIBLE_CORES", "3")
    assert neuron.open_neuron_backend().info.target == "trn1"
    assert "NEURON_RT_NUM_CORES" not in os.environ and "NEURON_LOGICAL_NC_CONFIG" not in os.environ


def test_an_instance_that_is_not_told_is_warned_of(machine, monkeypatch) -> None:
    monkeypatch.setattr(neuron, "instance_target", lambda: None)
    warnings: list[str] = []
    assert neuron.open_neuron_backend(warn=warnings.append).info.target == "trn2"
    assert "labelled trn2" in warnings[0] and "NEURON_PLATFORM_TARGET_OVERRIDE" not in os.environ


def test_logical_cores_of_two_are_refused(machine, monkeypatch) -> None:
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "2")
    with pytest.raises(BackendUnavailable, match="NEURON_LOGICAL_NC_CONFIG is 2"):
        neuron.open_neuron_backend()


def test_a_process_with_the_simulator_loaded_is_refused(machine, monkeypatch) -> None:
    monkeypatch.setattr(nki_source, "use_nki", USE_NKI)
    with pytest.raises(BackendUnavailable, match=r"too late .* the simulator's nki is loaded already"):
        neuron.open_neuron_backend()


def test_a_package_that_does_not_import(machine, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "torch_neuronx", None)
    with pytest.raises(BackendUnavailable, match="torch_neuronx cannot be imported"):
        neuron.open_neuron_backend()


def test_a_stub_from_pypi_is_told(packages, monkeypatch, tmp_path) -> None:
    for name, version in (("nki", "0.0.1"), ("neuronx_cc", "1.0.0"), ("torch_neuronx", "1.0.0")):
        info = tmp_path / f"{name}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\n\nWRONG PACKAGE. Use it.\n"
        )
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(BackendUnavailable) as caught:
        neuron.open_neuron_backend()
    for name in ("nki", "neuronx-cc", "torch-neuronx"):
        assert f"{name}: version" in str(caught.value) and "placeholder" in str(caught.value)
    assert exit_status(caught.value) == NO_BACKEND


def test_no_device_and_no_packages() -> None:
    with pytest.raises(BackendUnavailable, match=r"no Neuron device .*trninfer\[neuron\]"):
        neuron.open_neuron_backend()

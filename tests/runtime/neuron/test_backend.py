"""Opening the chip's backend: the choice of the way, the environment it sets, and the messages about missing parts."""

from __future__ import annotations

import os

import numpy as np
import pytest
from neuron_stand_ins import stand_in_chip
from trninfer import kernels
from trninfer.app.errors import NO_BACKEND, exit_status
from trninfer.kernels import nki_source
from trninfer.runtime.backend import BackendUnavailable
from trninfer.runtime.neuron import backend as neuron
from trninfer.runtime.neuron import environment


@pytest.fixture(params=[environment.TORCHNEURON, environment.NRT])
def machine(request, monkeypatch, tmp_path) -> pytest.MonkeyPatch:
    """Simulate a machine with everything that either way requires."""
    return stand_in_chip(monkeypatch, tmp_path / "cache", request.param)


@pytest.fixture
def torch_machine(monkeypatch, tmp_path) -> pytest.MonkeyPatch:
    return stand_in_chip(monkeypatch, tmp_path / "cache", environment.TORCHNEURON)


def test_opening_prepares_the_environment(machine, tmp_path) -> None:
    backend = neuron.open_neuron_backend(warn=pytest.fail)
    assert backend.info.target == "trn2"  # the target of the instance that neuron-ls reports
    assert os.environ["NEURON_PLATFORM_TARGET_OVERRIDE"] == "trn2"
    assert os.environ["NEURON_RT_NUM_CORES"] == "1" and os.environ["NEURON_LOGICAL_NC_CONFIG"] == "1"
    launch = backend.launch(kernels.transpose, np.ones((30, 40), np.float32))
    assert (tmp_path / "cache" / "locks").is_dir()
    assert launch.time.hbm_bytes == 2 * 30 * 40 * 4  # counted by the simulator: each is read or written once


def test_versions_that_trninfer_was_not_written_for_are_a_warning(torch_machine) -> None:
    torch_machine.setattr(
        environment, "unexpected_versions", lambda: ["neuronx-cc: version 2.0.404830, older than ..."]
    )
    warnings: list[str] = []
    neuron.open_neuron_backend(warn=warnings.append)
    assert warnings == ["neuronx-cc: version 2.0.404830, older than ..."]


def test_settings_of_the_user_are_kept(torch_machine, monkeypatch) -> None:
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "gen4")
    monkeypatch.setenv("NEURON_RT_VISIBLE_CORES", "3")
    assert neuron.open_neuron_backend().info.target == "trn3"
    assert "NEURON_RT_NUM_CORES" not in os.environ


def test_an_unknown_instance_type_causes_a_warning(torch_machine, monkeypatch) -> None:
    monkeypatch.setattr(neuron, "instance_target", lambda: None)
    warnings: list[str] = []
    assert neuron.open_neuron_backend(warn=warnings.append).info.target == "trn2"
    assert "labelled trn2" in warnings[0] and "NEURON_PLATFORM_TARGET_OVERRIDE" not in os.environ


@pytest.mark.parametrize("instance", ["trn1.2xlarge", "inf2.xlarge"])
def test_trn1_is_for_the_simulator(torch_machine, monkeypatch, instance) -> None:
    monkeypatch.setattr("trninfer.runtime.neuron.system.instance_type", lambda: instance)
    with pytest.raises(BackendUnavailable, match="--backend sim"):
        neuron.open_neuron_backend()


def test_a_process_with_awss_nki_loaded_is_refused(torch_machine, monkeypatch) -> None:
    def refuse(backend: str) -> str:
        raise RuntimeError("too late to choose the simulator's nki")

    monkeypatch.setattr(nki_source, "use_nki", refuse)
    with pytest.raises(BackendUnavailable, match="too late to choose"):
        neuron.open_neuron_backend()


def test_a_stub_from_pypi_is_reported(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(environment, "neuron_devices", lambda: ("/dev/neuron0",))
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

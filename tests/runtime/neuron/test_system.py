"""The machine's NeuronCores, with a stand-in for neuron-ls."""

from __future__ import annotations

import os

import pytest
from neuron_stand_ins import STAND_INS
from trninfer.runtime.backend import BackendUnavailable
from trninfer.runtime.neuron import system as neuron_system
from trninfer.runtime.neuron.system import (
    core_holders,
    driver_version,
    instance_target,
    instance_type,
    parse_cores,
    pick_cores,
    prepare_environment,
    runtime_library,
    system_packages,
    visible_cores,
)


@pytest.fixture
def neuron_ls(monkeypatch) -> None:
    monkeypatch.setenv("PATH", f"{STAND_INS / 'tools'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("NEURON_RT_VISIBLE_CORES", raising=False)


@pytest.fixture
def bare(monkeypatch, tmp_path) -> None:
    """Simulate a machine without any of it."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(neuron_system, "TOOLS_FOLDER", tmp_path)
    monkeypatch.setattr(neuron_system, "LIBRARY_FOLDER", tmp_path)
    monkeypatch.delenv("NEURON_RT_VISIBLE_CORES", raising=False)


def test_instance(neuron_ls) -> None:
    assert instance_type() == "trn2n.48xlarge" and instance_target() == "trn2"


@pytest.mark.parametrize(
    ("instance", "target"),
    [
        ("trn1.2xlarge", "trn1"),
        ("trn1n.32xlarge", "trn1"),
        ("inf2.xlarge", "trn1"),
        ("trn3.48xlarge", "trn3"),
        ("g5", None),
    ],
)
def test_targets_of_instances(monkeypatch, instance, target) -> None:
    monkeypatch.setattr(neuron_system, "instance_type", lambda: instance)
    assert instance_target() == target


def test_cores_are_counted_as_physical_ones(neuron_ls) -> None:
    assert visible_cores() == tuple(range(16))  # two devices with four logical cores of two NeuronCores
    assert visible_cores(2) == tuple(range(8))  # ids count the cores of the process
    assert pick_cores(8, 2) == tuple(range(8))
    with pytest.raises(BackendUnavailable, match=r"^9 NeuronCores were requested, but only 8 are visible"):
        pick_cores(9, 2)
    assert core_holders(1) == ["4712 (neuron-bench)"]
    assert core_holders(7) == core_holders() == ["4711 (python3 serve.py --model large)", "4712 (neuron-bench)"]


def test_the_variable_wins(neuron_ls, monkeypatch) -> None:
    monkeypatch.setenv("NEURON_RT_VISIBLE_CORES", "4-6")
    assert visible_cores() == (4, 5, 6)


def test_properties_are_unknown_without_neuron_tools(bare) -> None:
    assert visible_cores() is None and instance_type() is None and instance_target() is None
    assert runtime_library() is None


def test_a_neuron_ls_that_fails_or_talks_nonsense(bare, monkeypatch, tmp_path) -> None:
    tool = tmp_path / "neuron-ls"
    for text in ("exit 1", 'echo \'{"error": "no devices"}\'', "echo '[3]'"):
        tool.write_text(f"#!/bin/sh\n{text}\n")
        tool.chmod(0o755)
        assert visible_cores() is None


def test_driver_and_library(bare, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/bin")
    tool = tmp_path / "modinfo"
    tool.write_text(
        '#!/bin/sh\n[ "$1" = neuron ] && echo "filename: /lib/neuron.ko" && echo "version:        2.24.7.0"\n'
    )
    tool.chmod(0o755)
    assert driver_version() == "2.24.7.0"
    (tmp_path / "libnrt.so.2.29.40.0").write_text("")
    (tmp_path / "libnrt.so.1").symlink_to("libnrt.so.2.29.40.0")
    assert runtime_library() == str((tmp_path / "libnrt.so.2.29.40.0").resolve())


@pytest.mark.parametrize(("manager", "format_option"), [("dpkg-query", "-f"), ("rpm", "--qf")])
def test_packages_of_the_system(bare, monkeypatch, tmp_path, manager, format_option) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/bin")
    for name in ("dpkg-query", "rpm"):
        fails = "" if name == manager else "exit 1"
        (tmp_path / name).write_text(
            f"#!/bin/sh\n{fails}\n[ $# = 4 ] || exit 2\n"
            f'case "$*" in *"{format_option}"*"aws-neuronx-*"*)\n'
            'printf "aws-neuronx-tools 2.33.38.0\\naws-neuronx-dkms\\n";; esac\n'
        )
        (tmp_path / name).chmod(0o755)
    assert system_packages() == ("aws-neuronx-tools 2.33.38.0",)  # the other package is known but not installed


@pytest.mark.parametrize(
    ("text", "cores"), [("0", (0,)), ("0-3", (0, 1, 2, 3)), ("2,0", (2, 0)), (" 1 , 4-5", (1, 4, 5)), ("1,1", (1,))]
)
def test_parsing_cores(text, cores) -> None:
    assert parse_cores(text) == cores


@pytest.mark.parametrize("text", ["a", "3-1", "-1", "0,,1", "0-", "1.5", "0-999999999"])
def test_cores_that_cannot_be_read(text) -> None:
    with pytest.raises(BackendUnavailable, match=r"NEURON_RT_VISIBLE_CORES is .*; expected a core"):
        parse_cores(text)


def test_environment_on_trn2() -> None:
    variables = {"NKI_SIMULATOR": "1"}  # AWS's nki would then run kernels on its simulator
    prepare_environment("trn2", True, variables)
    assert variables == {
        "NEURON_RT_STOCHASTIC_ROUNDING_EN": "0",
        "NEURON_RT_NUM_CORES": "1",
        "NEURON_LOGICAL_NC_CONFIG": "1",
        "NEURON_PLATFORM_TARGET_OVERRIDE": "trn2",
    }


def test_variables_of_the_user_are_kept() -> None:
    variables = {"NEURON_RT_VISIBLE_CORES": "1", "NEURON_RT_STOCHASTIC_ROUNDING_EN": "1", "NEURON_CC_FLAGS": "--lnc=1"}
    prepare_environment("trn3", False, variables)
    assert variables.pop("NEURON_LOGICAL_NC_CONFIG") == "1"
    assert variables == {
        "NEURON_RT_VISIBLE_CORES": "1", "NEURON_RT_STOCHASTIC_ROUNDING_EN": "1", "NEURON_CC_FLAGS": "--lnc=1",
    }  # fmt: skip


def test_two_cores_form_a_logical_core_on_request() -> None:
    variables = {"NEURON_CC_FLAGS": "-O1 --lnc=2"}
    prepare_environment("trn2", True, variables, lnc=2)
    assert variables["NEURON_LOGICAL_NC_CONFIG"] == "2" and variables["NEURON_RT_NUM_CORES"] == "1"
    for other in ({"NEURON_LOGICAL_NC_CONFIG": "1"}, {"NEURON_CC_FLAGS": "--lnc 1"}):
        with pytest.raises(BackendUnavailable, match=r"--lnc 2 runs kernels on two NeuronCores each: .*omit --lnc 2"):
            prepare_environment("trn2", True, dict(other), lnc=2)


@pytest.mark.parametrize(
    ("target", "variables", "told"),
    [
        ("trn1", {}, "to simulate trn1, use --backend sim"),
        ("trn2", {"NEURON_LOGICAL_NC_CONFIG": "2"}, "NEURON_LOGICAL_NC_CONFIG is 2"),
        ("trn2", {"NEURON_CC_FLAGS": "-O1 --lnc=2"}, "NEURON_CC_FLAGS has --lnc=2"),
        ("trn3", {"NEURON_CC_FLAGS": "--logical-nc-config 2"}, "has --logical-nc-config 2"),
    ],
)
def test_incompatible_variables_are_refused(target, variables, told) -> None:
    with pytest.raises(BackendUnavailable, match=told):
        prepare_environment(target, True, dict(variables))

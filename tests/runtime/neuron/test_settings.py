"""The settings on which compiled kernels depend, and TorchNeuron's cache folder for them."""

from __future__ import annotations

import importlib.metadata
import json
import sys
from pathlib import Path

import pytest
from neuron_stand_ins import forget_variables
from trninfer.runtime.neuron import settings
from trninfer.runtime.neuron.settings import compiler_settings, package_versions, torch_variables


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_variables(monkeypatch)


def test_versions_of_what_is_installed_and_of_what_is_not(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert package_versions()["nki"] is None
    for name, version in (("nki", "0.7.1"), ("torch", "2.9.0")):
        (tmp_path / f"{name}-{version}.dist-info").mkdir()
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        (tmp_path / f"{name}-{version}.dist-info" / "METADATA").write_text(metadata)
    monkeypatch.syspath_prepend(str(tmp_path))
    versions = package_versions()
    assert (versions["nki"], versions["torch"]) == ("0.7.1", "2.9.0")
    assert versions["torch"] == importlib.metadata.version("torch")


def test_torch_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    assert package_versions()["torch"] is None


def test_settings_are_json_and_have_the_variables_that_compilers_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NKI_COMPILER_FRONTEND", "NEURON_CC_FLAGS", "NKI_DEBUG_INFO", "NEURON_LOGICAL_NC_CONFIG"):
        before = compiler_settings()
        assert before["variables"][name] == ""
        monkeypatch.setenv(name, "1")
        assert compiler_settings()["variables"][name] == "1"
    assert compiler_settings()["python"] == f"{sys.version_info.major}.{sys.version_info.minor}"
    assert json.loads(json.dumps(compiler_settings())) == compiler_settings()


def test_torchneuron_keeps_what_it_compiles_by_settings_and_sources(monkeypatch, tmp_path: Path) -> None:
    assert torch_variables(None) == {}
    folders = set()
    for change in (
        lambda: None,
        lambda: monkeypatch.setenv("NEURON_CC_FLAGS", "-O1"),
        lambda: monkeypatch.setattr(settings, "kernels_digest", lambda: "changed"),
    ):
        change()
        variables = torch_variables(tmp_path)
        neff, nki = Path(variables.pop("TORCH_NEURONX_NEFF_CACHE_DIR")), Path(variables.pop("NKI_COMPILE_CACHE_URL"))
        assert neff.parent == nki.parent and neff != nki and not variables
        assert neff.parent.parent == tmp_path / "torchneuron"
        folders.add(neff.parent)
    assert len(folders) == 3


def test_folders_that_the_user_has_set_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NKI_COMPILE_CACHE_URL", "/mine")
    assert list(torch_variables(tmp_path)) == ["TORCH_NEURONX_NEFF_CACHE_DIR"]

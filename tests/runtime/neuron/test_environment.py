"""What is found of AWS Neuron, from made-up installations."""

from pathlib import Path

import pytest
from trninfer.runtime.neuron import environment

PLACEHOLDER = "WRONG PACKAGE. Please install the package from Neuron Repository - pip.repos.neuron.amazonaws.com"


def install(folder: Path, name: str, version: str, description: str = "A real package.") -> None:
    """A distribution's metadata, and a module that must not be imported."""
    information = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\n{description}\n", encoding="utf-8"
    )
    module = folder / name.replace("-", "_")
    module.mkdir()
    (module / "__init__.py").write_text("raise RuntimeError('imported')", encoding="utf-8")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(environment, "neuron_devices", lambda: ("/dev/neuron0",))
    return tmp_path


def states() -> dict[str, str]:
    return {package.name: package.state for package in environment.neuron_packages()}


def test_nothing_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment.glob, "glob", lambda pattern: [])
    assert set(states().values()) == {"missing"}
    assert environment.find_way().missing == (
        "no Neuron device (/dev/neuron*)",
        "nki: not installed",
        "nrtpy: not in this environment, and TRNINFER_NRTPY names none",
    )


def test_placeholders_of_pypi_are_no_packages(site: Path) -> None:
    install(site, "nki", "0.0.1", PLACEHOLDER)
    install(site, "neuronx-cc", "1.0.post1", PLACEHOLDER)
    found = states()
    assert found["nki"] == found["neuronx-cc"] == "placeholder" and found["torch-neuronx"] == "missing"
    reasons = environment.find_way().missing
    assert any(reason.startswith("nki:") and "WRONG PACKAGE" in reason for reason in reasons)


def test_versions_that_will_do(site: Path) -> None:
    install(site, "nki", "0.6.0+gabcdef")
    install(site, "neuronx-cc", "2.26.8089.0+8ab9f450")
    install(site, "torch-neuronx", "2.10.0.1")
    install(site, "islpy", "2026.2.1")
    assert states() == {
        "nki": "ready", "neuronx-cc": "too old", "torch-neuronx": "too new", "islpy": "too new",
        "libneuronxla": "missing",
    }  # fmt: skip
    assert environment.find_way().missing == (
        "nrtpy: not in this environment, and TRNINFER_NRTPY names none",
        "islpy: version 2026.2.1 is too new; older than 2026.2 is needed",
        "neuronx-cc: version 2.26.8089.0+8ab9f450 is too old; 2.27 or newer is needed",
        "torch-neuronx: version 2.10.0.1 is too new; older than 2.10 is needed",
    )


def test_the_way_to_the_chip(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(site, "nki", "0.6.0")
    assert environment.find_way(nrtpy_elsewhere=True) == environment.Way("nrtpy", ())
    assert environment.find_way().way is None
    install(site, "neuronx-cc", "2.27.1")
    install(site, "torch-neuronx", "2.9.0.2")
    assert environment.find_way() == environment.Way("torch_neuronx", ())
    (site / "nrtpy").mkdir()
    (site / "nrtpy" / "__init__.py").write_text("raise RuntimeError('imported')", encoding="utf-8")
    assert environment.find_way() == environment.Way("nrtpy", ())
    monkeypatch.setattr(environment, "neuron_devices", lambda: ())
    assert environment.find_way() == environment.Way(None, ("no Neuron device (/dev/neuron*)",))


def test_devices_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["/dev/neuron10", "/dev/neuron2", "/dev/neuron_extra", "/dev/neuron0"]
    monkeypatch.setattr(environment.glob, "glob", lambda pattern: names)
    assert environment.neuron_devices() == ("/dev/neuron0", "/dev/neuron2", "/dev/neuron10")

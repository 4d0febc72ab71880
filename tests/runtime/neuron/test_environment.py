"""Detecting AWS Neuron in simulated installations."""

import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from trninfer.runtime.neuron import environment

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PLACEHOLDER = "WRONG PACKAGE. Please install the package from Neuron Repository - pip.repos.neuron.amazonaws.com"


def install(folder: Path, name: str, version: str, description: str = "A real package.") -> None:
    """Install a distribution's metadata, and a module that must not be imported."""
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


@pytest.fixture(autouse=True)
def python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "_python", lambda: (3, 12))


def states() -> dict[str, str]:
    return {package.name: package.state for package in environment.neuron_packages()}


def test_environment_without_neuron_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment.glob, "glob", lambda pattern: [])
    assert set(states().values()) == {"missing"}
    assert environment.find_way().missing == (
        "no Neuron device (/dev/neuron*)",
        "nki: not installed",
        "neuronx-cc: not installed",
        "torch-neuronx: not installed",
    )


def test_placeholders_of_pypi_are_no_packages(site: Path) -> None:
    install(site, "nki", "0.0.1", PLACEHOLDER)
    install(site, "neuronx-cc", "1.0.post1", PLACEHOLDER)
    found = states()
    assert found["nki"] == found["neuronx-cc"] == "placeholder" and found["torch-neuronx"] == "missing"
    reasons = environment.find_way().missing
    assert any(reason.startswith("nki:") and "WRONG PACKAGE" in reason for reason in reasons)


def test_versions_that_will_do(site: Path) -> None:
    install(site, "nki", "0.7.0+gabcdef")
    install(site, "neuronx-cc", "2.27.8089.0+8ab9f450")
    install(site, "torch-neuronx", "2.9.0.2.15.32035")
    assert states() == {"nki": "ready", "neuronx-cc": "older", "torch-neuronx": "too old"}
    # the other product with that name does not count
    assert environment.find_way() == environment.Way("nki.runtime", ())


def test_versions_of_a_real_machine_are_used_and_reported(site: Path) -> None:
    for name, version in (("nki", "0.7.0b1"), ("neuronx-cc", "2.0.404830"), ("torch-neuronx", "2.14.3")):
        install(site, name, version)
    assert environment.find_way() == environment.Way("torchneuron", ())
    assert environment.unexpected_versions() == [
        "neuronx-cc: version 2.0.404830 is older than the version that trninfer was written for (2.28)"
    ]


def test_the_bounds_of_the_extras_admit_real_versions_and_no_placeholder() -> None:
    """They are read as by pip: a development version is allowed if a bound names one."""
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    found = {}
    for line in (*extras["neuron"], *extras["neuron-neff"]):
        requirement = Requirement(line)
        found[requirement.name] = requirement.specifier
    real = {"nki": ("0.7.0", "0.7.0b1"), "neuronx-cc": ("2.28.7631.0", "2.0.404830"), "torch-neuronx": ("2.14.3",)}
    for name, versions in real.items():
        assert all(found[name].contains(version) for version in versions), name
    for name, version in (("nki", "0.0.1"), ("neuronx-cc", "1.0.post1"), ("torch-neuronx", "1.0")):
        assert not found[name].contains(version), name


def test_versions_that_came_later_are_used_and_reported(site: Path) -> None:
    for name, version in (("nki", "0.8.1"), ("neuronx-cc", "2.29.1"), ("torch-neuronx", "2.15.0")):
        install(site, name, version)
    assert set(states().values()) == {"newer"}
    assert environment.find_way().way == "torchneuron"
    assert (
        environment.neuron_packages()[0].explanation
        == "version 0.8.1 is newer than the version that trninfer was written for (0.7)"
    )


def test_the_way_to_the_chip(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(site, "nki", "0.7.0")
    install(site, "neuronx-cc", "2.28.7631.0")
    assert environment.find_way() == environment.Way("nki.runtime", ())
    install(site, "torch-neuronx", "2.14.3.0")
    assert environment.find_way() == environment.Way("torchneuron", ())
    monkeypatch.setattr(environment, "neuron_devices", lambda: ())
    assert environment.find_way() == environment.Way(None, ("no Neuron device (/dev/neuron*)",))


def test_devices_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["/dev/neuron10", "/dev/neuron2", "/dev/neuron_extra", "/dev/neuron0"]
    monkeypatch.setattr(environment.glob, "glob", lambda pattern: names)
    assert environment.neuron_devices() == ("/dev/neuron0", "/dev/neuron2", "/dev/neuron10")


def test_a_python_without_torchneuron_is_reported(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "_python", lambda: (3, 11))
    explanations = {package.name: package.explanation for package in environment.neuron_packages()}
    assert explanations["nki"] == "not installed"
    assert explanations["torch-neuronx"] == "not installed; it requires Python 3.12 or newer, but this is 3.11"

"""How the package finds `nki`, and how it gives its kernels by name."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from trninfer import kernels


def python(code: str, path: Path, backend: str | None = None) -> str:
    """What a fresh interpreter prints that finds packages in `path` first."""
    environment = {**os.environ, "PYTHONPATH": str(path)}
    environment.pop("TRNINFER_BACKEND", None)
    if backend is not None:
        environment["TRNINFER_BACKEND"] = backend
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def write_package(folder: Path, files: dict[str, str]) -> Path:
    package = folder / "nki"
    package.mkdir()
    for name, text in files.items():
        (package / name).write_text(text, encoding="utf-8")
    return folder


CHOICE = "from trninfer.kernels import ensure_nki; import nki; print(ensure_nki(), 'simulator' in nki.__file__)"
REAL = {"__init__.py": "", "isa.py": "", "language.py": ""}


def test_without_nki_the_simulator_answers(tmp_path: Path) -> None:
    assert python(CHOICE, tmp_path) == "sim True"


def test_an_installed_nki_answers(tmp_path: Path) -> None:
    assert python(CHOICE, write_package(tmp_path, REAL)) == "neuron False"


def test_the_variable_chooses_the_simulator_although_nki_is_installed(tmp_path: Path) -> None:
    assert python(CHOICE, write_package(tmp_path, REAL), backend="sim") == "sim True"


def test_the_placeholder_on_pypi_is_not_taken_for_nki(tmp_path: Path) -> None:
    placeholder = {"__init__.py": "raise RuntimeError('WRONG PACKAGE')"}
    assert python(CHOICE, write_package(tmp_path, placeholder)) == "sim True"


def test_kernels_are_loaded_on_first_use(tmp_path: Path) -> None:
    code = (
        "import sys, trninfer.kernels as k; print('trninfer.kernels.argmax' in sys.modules); "
        "k.argmax; print('trninfer.kernels.argmax' in sys.modules)"
    )
    assert python(code, tmp_path).split() == ["False", "True"]


@pytest.mark.parametrize("first", ["import trninfer.kernels.transpose", "import trninfer.kernels.ffnn", "pass"])
def test_a_kernel_wins_over_the_module_of_its_name(tmp_path: Path, first: str) -> None:
    code = (
        f"{first}; from trninfer.kernels import transpose, argmax, bias_activation; "
        "print([callable(kernel) for kernel in (transpose, argmax, bias_activation)])"
    )
    assert python(code, tmp_path) == "[True, True, True]"


def test_every_name_is_a_kernel() -> None:
    for name in kernels.__all__:
        assert callable(getattr(kernels, name))
        assert name in dir(kernels)


def test_an_unknown_name() -> None:
    with pytest.raises(AttributeError, match="no kernel 'conv3d'; there are vector_add_naive, "):
        _ = kernels.conv3d

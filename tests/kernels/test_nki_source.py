"""How the package finds `nki` and exports its kernels by name."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from trninfer import kernels


def python(code: str, path: Path, backend: str | None = None) -> str:
    """Return the output of a new interpreter that finds packages in `path` first."""
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


CHOICE = "from trninfer.kernels import use_nki; use_nki(); import nki; print(use_nki(), 'simulator' in nki.__file__)"
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


def test_a_choice_that_comes_too_late_is_refused(tmp_path: Path) -> None:
    late = "import nki; from trninfer.kernels import use_nki; print(use_nki())\ntry: use_nki({!r})\n"
    late += "except RuntimeError as error: print(error)"
    real = write_package(tmp_path, REAL)
    assert python(late.format("sim"), real).splitlines() == [
        "neuron",
        f"too late to choose the simulator's nki: AWS's package nki is already loaded from {real}/nki/__init__.py; "
        "call use_nki before anything imports nki",
    ]
    simulated = "from trninfer import simulator; simulator.install(); " + late.format("neuron")
    assert "too late to choose AWS's package nki: the simulator's nki is already loaded" in python(simulated, real)


def test_a_child_finds_the_real_nki_where_its_parent_has_the_simulators(tmp_path: Path) -> None:
    """TorchNeuron's process is a child of a process that predicts."""
    code = (
        "import subprocess; from trninfer import simulator; simulator.install(); "
        "from trninfer.child_python import python_command; "
        "command = python_command('trninfer.kernels.nki_source', 'use_nki', 'neuron'); "
        "print(subprocess.run(command, capture_output=True).returncode)"
    )
    package = write_package(tmp_path, REAL)
    behind = "import sys; sys.path.remove({0!r}); sys.path.append({0!r}); ".format(str(package))  # like site-packages
    assert python(behind + code, package) == "0"


def test_words_and_packages_that_are_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "from trninfer.kernels import use_nki\ntry: use_nki('neuron')\nexcept RuntimeError as error: print(error)"
    assert "AWS's package nki is not installed here" in python(code, tmp_path)
    with pytest.raises(ValueError, match="backend must be auto, neuron or sim, got 'chip'"):
        kernels.use_nki("chip")


def test_nothing_is_chosen_or_loaded_before_a_kernel_is(tmp_path: Path) -> None:
    code = (
        "import sys, trninfer.kernels as k; from trninfer import models; import trninfer.models.layout; "
        "print('nki' in sys.modules, 'trninfer.kernels.argmax' in sys.modules); "
        "k.argmax; print('nki' in sys.modules, 'trninfer.kernels.argmax' in sys.modules)"
    )
    assert python(code, tmp_path).split() == ["False", "False", "True", "True"]


def test_installing_the_simulator_by_hand_is_a_choice(tmp_path: Path) -> None:
    code = (
        "from trninfer import simulator; simulator.install(); from trninfer.kernels import matmul_tiled, transpose; "
        "print(callable(matmul_tiled), callable(transpose))"
    )
    assert python(code, tmp_path) == "True True"


@pytest.mark.parametrize("first", ["use_nki(); import trninfer.kernels.matmul", "use_nki('sim')", "pass"])
def test_kernels_by_name_whatever_was_imported_before(tmp_path: Path, first: str) -> None:
    code = (
        f"from trninfer.kernels import use_nki; {first}; from trninfer.kernels import transpose, argmax, ffnn_predict; "
        "print([callable(kernel) for kernel in (transpose, argmax, ffnn_predict)])"
    )
    assert python(code, tmp_path) == "[True, True, True]"


def test_a_module_by_its_own_path_gets_the_default_choice(tmp_path: Path) -> None:
    code = (
        "from trninfer.kernels.ffnn import ffnn_predict; from trninfer.kernels.transpose import transpose; import nki; "
        "from trninfer.kernels import use_nki, kernel; "
        "print(use_nki(), callable(ffnn_predict), kernel('transpose') is transpose, 'simulator' in nki.__file__)"
    )
    assert python(code, tmp_path) == "sim True True True"
    placeholder = {"__init__.py": "raise RuntimeError('WRONG PACKAGE')"}
    assert python(code, write_package(tmp_path, placeholder)) == "sim True True True"


def test_the_default_choice_leaves_an_installed_nki_alone(tmp_path: Path) -> None:
    code = "import trninfer.kernels, nki; print(nki.__file__)"
    assert python(code, write_package(tmp_path, REAL)) == str(tmp_path / "nki" / "__init__.py")
    assert "simulator" in python(code, tmp_path, backend="sim")


def test_names_shared_with_a_module_mean_the_kernel(tmp_path: Path) -> None:
    code = (
        "import trninfer.kernels.transpose as module; from trninfer import kernels; kernels.kernel('argmax'); "
        "print([callable(getattr(kernels, name)) for name in kernels.__all__].count(False), callable(module))"
    )
    assert python(code, tmp_path) == "0 False"


def test_every_name_is_a_kernel() -> None:
    for name in kernels.__all__:
        assert callable(getattr(kernels, name))
        assert name in dir(kernels)


def test_an_unknown_name() -> None:
    with pytest.raises(AttributeError, match="no kernel 'conv3d'; available: vector_add_naive, "):
        _ = kernels.conv3d


BREAKS_A_RULE = """
import numpy as np, warnings
from trninfer import kernels, simulator
kernels.use_nki("sim")
import nki, nki.language as nl, nki.isa as nisa

def mine(x):
    nisa.dma_copy(dst=nl.ndarray((4, 4), nl.float32, buffer=nl.sbuf, name="a"), src=x)
    nisa.dma_copy(dst=nl.ndarray((4, 4), nl.float32, buffer=nl.sbuf, name="a"), src=x)
    return x

with warnings.catch_warnings(record=True) as caught:
    simulator.run(kernels.psum_side_by_side, *[np.ones((300, 4), np.float32)] * 2)
    theirs = len(caught)
    simulator.run(mine, np.ones((4, 4), np.float32))
print(theirs, [warning.category.__name__ for warning in caught])
"""


def test_what_is_reported_of_chips_is_shown_of_users_kernels_alone(tmp_path: Path) -> None:
    assert python(BREAKS_A_RULE, tmp_path) == "0 ['ReportedOnChipWarning']"

"""Every kernel, and every helper that a kernel calls, is NKI that AWS's compiler accepts, as far as the source
shows."""

import inspect
from functools import cache
from pathlib import Path

import pytest
from trninfer import kernels, simulator
from trninfer.kernels.program import MAX_INPUTS, input_name
from trninfer.simulator.checking.lint import examine_file

ROOT = Path(__file__).parents[2]
FILES = sorted([*ROOT.rglob("kernels/**/*.py"), *ROOT.glob("benchmarks/kernels/*.py")])


EXCEPTIONS: set[tuple[str, str]] = set()  # files and rules that they deliberately break


@cache
def examined(path: Path):
    """Return the linter's findings for a file."""
    return examine_file(path)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_of_kernels_has_no_findings(path):
    findings = examined(path).findings
    assert [str(finding) for finding in findings if (path.name, finding.rule) not in EXCEPTIONS] == []


def test_exceptions_are_needed():
    files = [path for path in FILES if path.name in dict(EXCEPTIONS)]
    found = {(path.name, finding.rule) for path in files for finding in examined(path).findings}
    assert found >= EXCEPTIONS


def test_kernels_are_there_to_be_checked():
    files = [path for path in FILES if path.parent.name == "kernels"]  # not helper modules of kernels
    names = {name for path in files for name in examined(path).kernels}
    assert names >= {"vector_add_naive", "transpose", "matmul_tiled", "bias_activation", "argmax", "ffnn_predict"}
    assert {"fused_conv2d_maxpool", "fused_conv2d_maxpool_packed", "run_network"} <= names


OWN_NAMES = set(inspect.signature(simulator.run).parameters) - {"kernel", "arrays", "parameters"}


@pytest.mark.parametrize("name", [name for name in kernels.__all__ if name not in ("kernel", "use_nki")])
def test_a_kernel_is_bound_by_name(name):
    """As TorchNeuron binds it: omitted parameters have defaults, and no operand is variadic (nki_hop.py)."""
    parameters = inspect.signature(kernels.kernel(name)).parameters.values()
    starred = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY)
    assert [str(parameter) for parameter in parameters if parameter.kind in starred] == []
    for parameter in parameters:
        hash(parameter.default)  # must be hashable: it is a constant of the compiled kernel
    assert OWN_NAMES.isdisjoint(parameter.name for parameter in parameters)  # the simulator passes operands by name


def test_run_network_has_a_parameter_for_each_input_of_a_launch():
    names = list(inspect.signature(kernels.run_network).parameters)
    inputs = [input_name(number) for number in range(MAX_INPUTS)]
    assert [name for name in names if name == "x" or name.startswith("more")] == inputs
    with pytest.raises(ValueError, match=r"^the number of an input must be less than 8, got 8$"):
        input_name(MAX_INPUTS)

"""The kernel that runs programs has a body for each operation."""

import inspect

import pytest
from trninfer.kernels import program
from trninfer.kernels.network import BODIES, run_network
from trninfer.kernels.program import Operation, Pool
from trninfer.simulator.checking.lint import examine_file

ABSTRACT = {  # classes that are not operations themselves, and why
    "Operation": "what all have",
    "Pool": "what MaxPool and AveragePool have",
    "FilterOperation": "what those that multiply by filters have",
    "Numbered": "what those with numbers for each channel or element have",
    "Norm": "what LayerNorm and GroupNorm have",
}
OPERATIONS = [kind for _, kind in inspect.getmembers(program, inspect.isclass) if issubclass(kind, Operation)]


@pytest.mark.parametrize("kind", OPERATIONS, ids=lambda kind: kind.__name__)
def test_an_operation_has_a_body(kind: type[Operation]) -> None:
    if kind.__name__ in ABSTRACT:
        assert kind not in BODIES
        return
    assert kind in BODIES, f"kernels/program.py has {kind.__name__}, for which kernels/network.py has no body"


def test_a_body_takes_a_launch_a_number_an_operation_and_its_operands() -> None:
    for kind, body in BODIES.items():
        names = list(inspect.signature(body).parameters)
        assert names == ["launch", "number", "operation", "operands"], f"{kind.__name__}: {body.__name__}{names}"
        annotation = inspect.signature(body).parameters["operation"].annotation
        assert annotation in (kind, kind.__name__), f"the body of {kind.__name__} says it is of {annotation}"
    assert Pool not in BODIES


def test_it_is_one_kernel_for_all_programs() -> None:
    assert [kernel for kernel in examine_file(inspect.getfile(run_network.function)).kernels] == ["run_network"]

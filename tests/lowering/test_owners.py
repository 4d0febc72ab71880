"""Which operation each instruction of a launch belongs to."""

import itertools

import numpy as np
from lowered import decide, decided, tensor_spec
from random_networks import conv, ending_in_dense, model_of
from trninfer import kernels, simulator
from trninfer.kernels.program import Convolution
from trninfer.lowering.owners import Owner, owners_of
from trninfer.runtime.layer_launches import specs_of

WIDE = model_of(ending_in_dense((3, 8, 8), [conv("a", 3, 200, 3), conv("b", 200, 300, 3), conv("c", 300, 140, 1)]))


def test_instructions_are_of_the_operations_that_the_program_has() -> None:
    """In order, but for weights that are loaded ahead: those are of the operation that multiplies them."""
    plan = decided(WIDE, decide(ahead=8), 2, at_once=1)
    specs = {name: tensor_spec(spec) for name, spec in specs_of(plan, np.dtype("f4")).items()}
    run = simulator.run(kernels.kernel("run_network"), **specs, functional=False, program=plan.program)
    owners = owners_of(run.program)
    loads = [each.dma is not None and each.dma.load for each in run.program]
    own = [owner for owner, is_load in zip(owners, loads) if not is_load]
    assert None not in own and own == sorted(own)
    assert {owner.operation for owner in owners if owner} >= set(range(1, len(plan.program.operations)))
    assert any(one and after and one > after for one, after in itertools.pairwise(owners))
    multiplying = {owner for owner, each in zip(owners, run.program) if each.op == "nc_matmul"}
    kinds = plan.program.operations
    convolutions = {Owner(n, number) for n in (0, 1) for number, op in enumerate(kinds) if isinstance(op, Convolution)}
    assert convolutions <= multiplying


def test_other_kernels_have_no_operations() -> None:
    run = simulator.run(kernels.kernel("vector_add_naive"), np.zeros(4, "f4"), np.zeros(4, "f4"))
    assert set(owners_of(run.program)) == {None}

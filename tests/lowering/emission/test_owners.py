"""The operation of each instruction in a launch."""

import numpy as np
from lowered import decided, tensor_spec
from random_networks import conv, ending_in_dense, model_of
from trninfer import kernels, simulator
from trninfer.kernels.program import Convolution
from trninfer.lowering.decisions import Decisions
from trninfer.lowering.emission.owners import Owner, owners_of
from trninfer.runtime.layer_launches import specs_of

WIDE = model_of(ending_in_dense((3, 8, 8), [conv("a", 3, 200, 3), conv("b", 200, 300, 3), conv("c", 300, 140, 1)]))


def test_instructions_are_of_the_operations_that_the_program_has() -> None:
    plan = decided(WIDE, Decisions(), 2, at_once=1)
    specs = {name: tensor_spec(spec) for name, spec in specs_of(plan, np.dtype("f4")).items()}
    run = simulator.run(kernels.kernel("run_network"), **specs, functional=False, program=plan.program)
    owners = owners_of(run.program)
    own = [owner for owner in owners if owner is not None]
    assert own == owners == sorted(own)
    assert {owner.operation for owner in own} >= set(range(1, len(plan.program.operations)))
    multiplying = {owner for owner, each in zip(owners, run.program) if each.op == "nc_matmul"}
    kinds = plan.program.operations
    convolutions = {Owner(n, number) for n in (0, 1) for number, op in enumerate(kinds) if isinstance(op, Convolution)}
    assert convolutions <= multiplying


def test_other_kernels_have_no_operations() -> None:
    run = simulator.run(kernels.kernel("vector_add_naive"), np.zeros(4, "f4"), np.zeros(4, "f4"))
    assert set(owners_of(run.program)) == {None}

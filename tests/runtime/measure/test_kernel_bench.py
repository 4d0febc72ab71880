"""Single kernels, timed and checked: the reference of each case is that of its kernel."""

import pytest
from trninfer.runtime.measure.kernel_bench import run_kernel, time_kernel
from trninfer.runtime.measure.kernel_cases import KernelCase, ShapeError, kernel_case, kernel_names
from trninfer.runtime.simulated import SimulatedBackend

SHAPES = [
    ("conv2d", "batch=2,cin=3,cout=5,h=9,w=8,k=3,pool=2,padding=1,activation=relu"),
    ("conv2d", "cin=1,cout=1,h=5,w=5,k=1"),
    ("matmul", "m=65,k=130,n=33"),
    ("matmul", "m=128,k=256,n=512,variant=tiled"),
    ("matmul", "m=128,k=256,n=512,variant=hoist_load"),
    ("matmul", "m=256,k=256,n=1024,variant=block_free_dimension"),
    ("transpose", "m=70,n=129"),
    ("bias_activation", "n=5,h=300,activation=gelu"),
    ("bias_activation", "n=130,h=7,activation=softmax"),
    ("average_pool", "c=3,h=9,w=8"),
    ("argmax", "n=129,c=11"),
    ("vector_add", "n=3000"),
    ("vector_add", "n=128,variant=naive"),
    ("vector_add", "n=512,variant=tiled,rows=64"),
    ("vector_add", "n=40000,variant=direct_allocation,free=100,tiles=2"),
    ("ffnn", "n=9,d=20,hidden=30,classes=10"),
]


def parse(text: str) -> dict[str, str]:
    return dict(part.split("=") for part in text.split(","))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize(("name", "shape"), SHAPES)
def test_kernels_agree_with_their_references(name: str, shape: str, dtype: str) -> None:
    case = kernel_case(name, parse(shape))
    backend = SimulatedBackend("trn2")
    timed = run_kernel(name, case, backend, dtype)
    assert timed.verification is not None and timed.verification.passed, timed.verification
    assert time_kernel(name, case, backend, dtype).row == timed.row
    assert timed.row.output_shape == case.output_shape and timed.row.share == 1


def test_all_families_are_tested() -> None:
    assert {name for name, _ in SHAPES} == set(kernel_names())


def test_a_wrong_result_is_reported() -> None:
    right = kernel_case("transpose", {"m": "3", "n": "4"})
    wrong = KernelCase(right.kernel, right.shapes, right.output_shape, {}, lambda a: a.T + 1)
    verdict = run_kernel("transpose", wrong, SimulatedBackend("trn2"), "float32").verification
    assert verdict is not None and not verdict.passed and verdict.max_abs_error == pytest.approx(1, rel=1e-3)


def test_values_are_computed_as_far_as_memory_goes() -> None:
    case = kernel_case("vector_add", parse("n=100000000"))
    with pytest.raises(ShapeError, match="its arrays have 300,000,000 numbers; the limit is 134,217,728"):
        run_kernel("vector_add", case, SimulatedBackend("trn2"), "float32")

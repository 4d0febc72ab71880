"""PyTorch tensors as arguments and results, compared element by element; skipped if PyTorch is not installed."""

import ml_dtypes
import nki
import numpy as np
import pytest
from small_kernels import accumulate
from trninfer import simulator
from trninfer.simulator.running.torch_tensors import array_of, is_tensor, tensor_of

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int32", "uint8"])
def test_pytorch_tensors_are_returned_and_updated(name):
    dtype = getattr(torch, name)
    total, row = torch.ones(4, 3).to(dtype), (torch.arange(12) % 3).reshape(4, 3).to(dtype)
    result = nki.simulate(accumulate)(total, (row,))["sum"]
    assert result.dtype == dtype
    assert torch.equal(result.float(), row.float() + 1)
    assert torch.equal(total.float(), result.float())
    (outputs,) = simulator.run(accumulate, total, (row,)).outputs
    np.testing.assert_array_equal(outputs["sum"].astype(np.float32), total.float() + row.float())


@pytest.mark.parametrize(
    "name, dtype",
    [
        ("float32", np.float32),
        ("bfloat16", ml_dtypes.bfloat16),
        ("float8_e4m3fn", ml_dtypes.float8_e4m3fn),
        ("float8_e5m2", ml_dtypes.float8_e5m2),
        ("int64", np.int64),
        ("bool", np.bool_),
    ],
)
def test_numbers_are_the_same_in_both(name, dtype):
    tensor = torch.tensor([[0.0, 1.0, -1.5], [2.0, 0.25, 448.0]]).to(getattr(torch, name))
    array = array_of(tensor)
    assert array.dtype == dtype and array.shape == (2, 3)
    np.testing.assert_array_equal(array.astype(np.float32), tensor.float().numpy())
    back = tensor_of(array[:, ::-1])
    assert back.dtype == tensor.dtype and torch.equal(back.float(), tensor.float().flip(1))


def test_the_memory_is_the_tensor_s():
    for dtype in (torch.float32, torch.bfloat16):
        tensor = torch.zeros(3, dtype=dtype, requires_grad=True)
        array_of(tensor)[1] = 4
        assert tensor.tolist() == [0, 4, 0]


def test_a_float_that_pytorch_lacks_is_float32():
    found = tensor_of(np.array([1.5, -240], ml_dtypes.float8_e4m3))
    assert found.dtype == torch.float32 and found.tolist() == [1.5, -240]


def test_only_tensors_are_tensors():
    assert is_tensor(torch.zeros(1)) and is_tensor(torch.nn.Parameter(torch.zeros(1)))
    assert not any(is_tensor(each) for each in (np.zeros(1), torch.float32, torch, [torch.zeros(1)], None))

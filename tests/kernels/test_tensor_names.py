"""Tensor names that identify their operation."""

import pickle

from trninfer.kernels.tensor_names import OpId, TensorName


def test_a_name_is_a_string_and_knows_what_it_is_for() -> None:
    name = TensorName("conv1.3", OpId(2), 1)
    assert name == "conv1.3" and hash(name) == hash("conv1.3")
    again = pickle.loads(pickle.dumps(name))
    assert (again, again.operation, again.pass_number) == ("conv1.3", 2, 1)

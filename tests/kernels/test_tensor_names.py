"""Names that know their operation."""

import pickle

from trninfer.kernels.tensor_names import OpId, TensorName


def test_a_name_is_a_string_and_knows_what_it_is_for() -> None:
    name = TensorName("conv1.3", OpId(2), 1)
    assert name == "conv1.3" and hash(name) == hash("conv1.3")
    assert (name.operation, name.pass_number, name.is_early) == (2, 1, False)
    again = pickle.loads(pickle.dumps(TensorName("w.4", OpId(5), 0, is_early=True)))
    assert (again, again.operation, again.pass_number, again.is_early) == ("w.4", 5, 0, True)

"""The engines that add to sums, bank by bank."""

from trninfer.kernels.convolution.adding import Adding, Way


def test_the_vector_engine_adds_alone_or_in_turn_with_the_tensor_engine() -> None:
    ways = [Adding.SHARED.way(turn, has_activation=True) for turn in range(10)]
    assert [way is Way.TENSOR for way in ways] == [True, False, True, False, True] * 2
    ways = [Adding.SHARED.way(turn, has_activation=False) for turn in range(6)]
    assert ways == [Way.TENSOR, Way.VECTOR_ALONE] * 3
    assert {Adding.VECTOR.way(turn, has_activation=True) for turn in range(5)} == {Way.VECTOR}
    assert {Adding.VECTOR.way(turn, has_activation=False) for turn in range(5)} == {Way.VECTOR_ALONE}


def test_the_tensor_engine_adds_to_the_last_bank_alone() -> None:
    for has_activation in (True, False):
        others = {Adding.LAST.way(turn, has_activation) for turn in range(5)}
        assert others == {Adding.VECTOR.way(0, has_activation)}
        assert Adding.LAST.way(3, has_activation, is_last=True) is Way.TENSOR
    assert Adding.VECTOR.way(0, has_activation=True, is_last=True) is Way.VECTOR

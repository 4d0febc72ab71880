"""The engines that add to sums, bank by bank."""

from trninfer.kernels.convolution.adding import Adding, Way


def test_the_vector_engine_adds_alone_or_in_turn_with_the_tensor_engine() -> None:
    ways = [Adding.SHARED.way(turn, has_activation=True) for turn in range(10)]
    assert [way is Way.TENSOR for way in ways] == [True, False, True, False, True] * 2
    ways = [Adding.SHARED.way(turn, has_activation=False) for turn in range(6)]
    assert ways == [Way.TENSOR, Way.VECTOR_ALONE] * 3
    assert {Adding.VECTOR.way(turn, has_activation=True) for turn in range(5)} == {Way.VECTOR}
    assert {Adding.VECTOR.way(turn, has_activation=False) for turn in range(5)} == {Way.VECTOR_ALONE}

"""Channel orders, compared with NumPy's result for the same slices, shuffles and concatenations."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from trninfer.lowering.graph.channels import Channels, joined
from trninfer.lowering.graph.lazy import LazyArray


@given(st.data())
def test_channels_are_those_that_numpy_gives(data: st.DataObject) -> None:
    """Three layers produce channels; each step selects some of them in any order, or concatenates two earlier
    values."""
    given = [np.arange(100 * n, 100 * n + data.draw(st.integers(1, 9))) for n in range(3)]
    there = [(Channels.of(n, len(channels)), channels) for n, channels in enumerate(given)]
    for _ in range(data.draw(st.integers(1, 8))):
        place, channels = data.draw(st.sampled_from(there))
        if data.draw(st.booleans()):
            which = np.array(data.draw(st.permutations(range(len(channels))))[: data.draw(st.integers(1, 12))])
            there.append((place.picked(which), channels[which]))
        else:
            other, its = data.draw(st.sampled_from(there))
            there.append((joined([place, other]), np.concatenate([channels, its])))
    for place, channels in there:
        lying = np.concatenate([given[part] for part in place.parts])
        np.testing.assert_array_equal(lying[place.order], channels)
        if len(set(place.parts)) == len(place.parts):
            assert place.are_plain == np.array_equal(lying, channels)
            assert place.are_all == (sorted(lying) == sorted(channels))
        assert all(set(given[part]) & set(channels) for part in place.parts)
        pixels = np.random.default_rng(1).standard_normal((len(lying), 1))
        filters = np.random.default_rng(2).standard_normal((4, len(channels), 1, 1))
        spread = place.filters(LazyArray.of(filters))
        assert spread.shape == spread.make().shape
        np.testing.assert_allclose(
            spread.make()[:, :, 0, 0] @ pixels, filters[:, :, 0, 0] @ pixels[place.order], atol=1e-9
        )
        np.testing.assert_array_equal(place.spread(channels, -1)[place.order], channels)


def test_pieces_of_one_layer_side_by_side_are_one_part() -> None:
    whole = Channels.of(4, 6)
    turned = joined([whole.picked(np.array([3, 4, 5])), whole.picked(np.array([0, 1, 2]))])
    assert turned.parts == (4,) and turned.order.tolist() == [3, 4, 5, 0, 1, 2] and turned.are_all
    twice = joined([whole, whole])
    assert twice.parts == (4, 4) and twice.are_plain


def test_channels_that_a_layer_multiplies() -> None:
    given = Channels.of(0, 3).picked(np.array([2, 0, 1])).given_by(7, 2)
    assert given.parts == (7,) and given.sizes == (6,) and given.order.tolist() == [4, 5, 0, 1, 2, 3]

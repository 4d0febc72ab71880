"""Heads of detectors: the channels of several convolutions become rows of pixels, which the network returns
concatenated."""

import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lowered import applicable, assert_right, decide, decided
from random_networks import conv, picture
from trninfer.kernels.program import Rearrange
from trninfer.models.layers import Concat, Conv2d, Flatten, Layer, Reshape, Transpose
from trninfer.models.network import Network
from trninfer.models.outputs import NamedOutput, Output

VALUES = Output("values")


def head(name: str, read: str, shape: tuple[int, int, int], boxes: int, numbers: int, order: str) -> list[Layer]:
    """Return the numbers of each box, either contiguous for each pixel ("HWA") or for each kind of box ("AHW", as in
    YOLOv5)."""
    channels, rows, columns = shape
    axes = {"HWA": (2, 3, 0, 1), "AHW": (0, 2, 3, 1)}[order]
    each = Conv2d(f"{name}c", channels, boxes * numbers, (1, 1), inputs=(read,))
    turn = Transpose(
        f"{name}t", (boxes, numbers, rows, columns), axes, (rows * columns * boxes * numbers,), inputs=(f"{name}c",)
    )
    return [each, turn]


@st.composite
def detectors(draw: st.DrawFn) -> Network:
    """Draw heads on values of one or several sizes, concatenated and returned, some also returned separately."""
    rows, columns = draw(st.integers(1, 9)), draw(st.integers(1, 20))
    channels = draw(st.sampled_from([3, 16, 64, 130]))
    layers: list[Layer] = [conv("stem", 3, channels, 3)]
    shapes = {"stem": (channels, rows, columns)}
    if rows > 2 and columns > 2:
        layers.append(Conv2d("down", channels, channels, (3, 3), (1, 1, 1, 1), stride=(2, 2), activation="relu"))
        shapes["down"] = (channels, (rows + 1) // 2, (columns + 1) // 2)
    numbers = draw(st.sampled_from([1, 2, 5, 14, 85]))
    tops: list[str] = []
    for n in range(draw(st.integers(1, 3))):
        read = draw(st.sampled_from(sorted(shapes))) if n else layers[-1].name  # all are read
        boxes, order = draw(st.sampled_from([1, 1, 3])), draw(st.sampled_from(["HWA", "AHW"]))
        layers += head(f"h{n}", read, shapes[read], boxes, numbers, order)
        tops.append(f"h{n}t")
        if draw(st.integers(0, 3)) == 0:
            layers.append(Reshape(f"h{n}f", layers[-1].shape, inputs=(f"h{n}t",)))
            tops[-1] = f"h{n}f"
    if draw(st.integers(0, 4)) == 0:
        tops.append(tops[0])  # read twice
    if draw(st.integers(0, 4)) == 0:
        layers.append(Flatten("plain", inputs=("stem",)))
        tops.append("plain")
    if len(tops) > 1 or draw(st.booleans()):
        layers.append(Concat("joined", inputs=tuple(tops)))
    others: tuple[NamedOutput, ...] = ()
    if layers[-1].name != tops[0] and draw(st.integers(0, 3)) == 0:
        size = next(math.prod(each.shape) for each in layers if isinstance(each, Transpose))
        others = (NamedOutput("other", tops[0], (size,), VALUES, ()),)
    return Network("n", picture(3, rows, columns), tuple(layers), (), VALUES, others=others)


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    network=detectors(),
    batch=st.sampled_from([1, 2, 3, 4, 7, 16]),
    dtype=st.sampled_from(["float32", "bfloat16", "float16"]),
    target=st.sampled_from(["trn1", "trn2", "trn3"]),
    packed=st.sampled_from([1, 1, 2, 4]),
    at_once=st.sampled_from([0, 0, 1]),
)
def test_heads_by_way_of_hbm(network: Network, batch: int, dtype: str, target: str, packed: int, at_once: int) -> None:
    decisions = applicable(network, decide(packed=packed), batch)
    assert_right(network, decisions, batch, dtype, target=target, at_once=at_once)


def two_heads(order: str) -> Network:
    layers = [conv("a", 3, 16, 3), *head("h", "a", (16, 8, 8), 2, 7, order)]
    layers += [Conv2d("b", 16, 16, (3, 3), (1, 1, 1, 1), inputs=("a",)), *head("i", "b", (16, 8, 8), 2, 7, order)]
    layers.append(Concat("joined", inputs=("ht", "it")))
    return Network("n", picture(3, 8, 8), tuple(layers), (), VALUES)


@pytest.mark.parametrize("order", ["HWA", "AHW"])
def test_heads_write_their_part_of_the_output(order: str) -> None:
    """Nothing is loaded again, and each convolution runs as a whole."""
    operations = decided(two_heads(order), decide()).program.operations
    moves = [operation for operation in operations if isinstance(operation, Rearrange)]
    assert {move.name: move.into.number for move in moves if move.into} == {"ht": 0, "it": 8 * 8 * 14} and len(
        moves
    ) == 2
    assert sum(operation.name == "hc" for operation in operations) == 1


def test_an_interleaved_value_is_returned_and_read() -> None:
    """Phases write it; its store used to be missing."""
    turn = Transpose("t", (4, 2, 5, 5), (0, 2, 3, 1), (4, 5, 10))
    layers = (conv("a", 3, 8, 3), turn, Flatten("tf"), conv("b", 4, 4, 3, inputs=("t",)), Flatten("flat"))
    other = NamedOutput("other", "tf", (200,), VALUES, ())
    assert_right(Network("n", picture(3, 5, 5), layers, (), VALUES, others=(other,)), decide(), 3)

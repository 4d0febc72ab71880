"""Row-packed expansions and the depthwise convolutions that read them, compared with the golden model."""

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from lowered import applicable, assert_right, convolution_of, decide, decided, graph_of, nanoseconds, nodes_of, planned
from random_networks import conv, labels, picture
from trninfer.kernels.program import Convolution
from trninfer.lowering.decisions import Kind
from trninfer.lowering.passes.pack_rows import has_packed_expansions, pack_rows
from trninfer.models.layers import Combine, Conv2d, Dense, Flatten, Layer, Pool
from trninfer.models.network import Network

EXPANSIONS = decide(packs_rows=True, pack_depthwise_expansions=True)
ROWS = decide(packs_rows=True)


class Blocks:
    """Inverted residual blocks on an image with `side` rows and columns."""

    def __init__(self, channels: int, side: tuple[int, int]) -> None:
        self.layers: list[Layer] = [conv("stem", 3, channels, 3)]
        self.image, self.channels, self.side = picture(3, *side), channels, side

    def add(
        self, wide: int, after: int, kernel: int, stride: tuple[int, int], activation: str, *, gated: bool = False
    ) -> None:
        """Add an expansion, a depthwise convolution, an optional gate, and a projection, with a residual sum if the
        shapes allow one."""
        name, before, act = f"b{len(self.layers)}", self.layers[-1].name, {"activation": activation}
        if activation == "clip":
            act["activation_parameters"] = (0.0, 6.0)  # type: ignore[assignment]
        pad, channels = (kernel // 2,) * 4, self.channels
        self.layers.append(Conv2d(f"{name}expand", channels, wide, (1, 1), **act))  # type: ignore[arg-type]
        each = Conv2d(f"{name}each", wide, wide, (kernel, kernel), pad, stride=stride, groups=wide, **act)  # type: ignore[arg-type]
        self.layers.append(each)
        side = each.output_shape((wide, *self.side))[1:]
        if gated:
            self.layers += [
                Pool(f"{name}mean", "average", side, (1, 1)),  # type: ignore[arg-type]
                Conv2d(f"{name}squeeze", wide, 5, (1, 1), activation="relu"),
                Conv2d(f"{name}excite", 5, wide, (1, 1), activation="sigmoid"),
                Combine(f"{name}gated", "multiply", inputs=(f"{name}each", f"{name}excite")),
            ]
        self.layers.append(Conv2d(f"{name}project", wide, after, (1, 1)))
        if after == channels and side == self.side:
            self.layers.append(Combine(f"{name}sum", "add", inputs=(f"{name}project", before)))
        self.channels, self.side = after, side  # type: ignore[assignment]

    def network(self) -> Network:
        """Return the blocks, followed by global average pooling and a dense layer."""
        ends = [Pool("mean", "average", self.side, (1, 1)), Flatten("flat"), Dense("dense", self.channels, 4)]
        return Network("n", self.image, (*self.layers, *ends), labels(4))


@st.composite
def networks(draw: st.DrawFn) -> Network:
    """Draw blocks of odd and even sizes, with and without partial tiles, some of which cannot be packed."""
    sides = st.sampled_from([12, 16, 19, 26, 33])
    channels = st.sampled_from([8, 16, 24, 32, 64])
    blocks = Blocks(draw(channels), (draw(sides), draw(sides)))
    for _ in range(draw(st.integers(1, 3))):
        if min(blocks.side) < 3:
            break
        blocks.add(
            draw(st.sampled_from([48, 65, 96, 144, 160, 192, 200])),
            draw(st.one_of(st.just(blocks.channels), channels, st.just(40))),
            draw(st.sampled_from([1, 3, 3, 5, 7])),
            draw(st.sampled_from([(1, 1), (1, 1), (2, 2), (2, 1)])),
            draw(st.sampled_from(["relu", "silu", "clip", "identity"])),
            gated=draw(st.booleans()),
        )
    return blocks.network()


@settings(max_examples=25)
@given(networks(), st.sampled_from([1, 2, 3]), st.sampled_from(["float32", "bfloat16", "float16"]), st.booleans())
def test_packed_expansions_compute_what_the_golden_model_does(
    network: Network, batch: int, dtype: str, pads: bool
) -> None:
    tolerance = 2e-5 if dtype == "float32" else 4e-2
    decisions = applicable(network, decide(packs_rows=True, pack_depthwise_expansions=True, pads_channels=pads))
    plan = assert_right(network, decisions, batch, dtype, tolerance=tolerance)
    event(f"packed: {has_packed_expansions(plan.graph)}")


def mobile(side: int = 48) -> Network:
    """Return the beginning of a MobileNet-like network."""
    blocks = Blocks(16, (side, side))
    blocks.add(96, 32, 3, (2, 2), "relu")
    blocks.add(144, 32, 3, (1, 1), "relu", gated=True)
    return blocks.network()


def test_an_expansion_has_a_tile_for_every_32_channels() -> None:
    graph = pack_rows(graph_of(mobile()), with_expansions=True)
    wide = [node.operation for node in graph.nodes if node.name.endswith(("expand", "each"))]
    assert [each.channels for each in wide] == [384, 384, 640, 640]
    assert [getattr(each, "groups", 0) for each in wide] == [1, 3, 1, 5]
    assert all(isinstance(each, Convolution) and each.row_fold.count == 4 for each in wide)
    (gate,) = [node.operation for node in graph.nodes if node.name.endswith("gated")]
    assert gate.channels == 640
    assert has_packed_expansions(graph) and not has_packed_expansions(pack_rows(graph_of(mobile())))


def test_filters_beyond_the_last_channel_are_zeros() -> None:
    graph = pack_rows(graph_of(mobile()), with_expansions=True)
    expand, each = ([node for node in graph.nodes if node.name.endswith(name)][-1] for name in ("expand", "each"))
    assert expand.filters is not None and each.filters is not None
    of_last = expand.filters.make().reshape(5, 4, 32, -1)[4]  # 16 of its 32 channels
    assert np.count_nonzero(of_last[:, 16:]) == 0 < np.count_nonzero(of_last[:, 15])
    assert np.count_nonzero(expand.numbers[0].reshape(5, 4, 32)[4, :, 16:]) == 0
    matrices = each.filters.make()
    assert matrices.shape[:2] == (640, 128)
    # each row of a group of outputs contains all taps of its own channel once, and no others
    assert {np.count_nonzero(row) for row in matrices.reshape(5, 4, 32, -1)[:4].reshape(512, -1)} == {9}


def test_a_tail_is_split_where_its_expansion_stays_as_it_is() -> None:
    """14 rows are not a multiple of 4: the second block is read in single rows, the first is packed."""
    blocks = Blocks(32, (28, 28))
    blocks.add(192, 32, 3, (1, 1), "relu")
    blocks.add(144, 64, 3, (2, 2), "relu")
    blocks.add(384, 64, 3, (1, 1), "relu")
    graph = pack_rows(graph_of(blocks.network()), with_expansions=True)
    found = [
        (node.operation.channels, node.operation.row_fold.count)
        for node in graph.nodes
        if node.name.endswith("each") and isinstance(node.operation, Convolution)
    ]
    assert found == [(768, 4), (128, 1), (16, 1), (768, 2)]
    assert_right(blocks.network(), EXPANSIONS, 2, "bfloat16", tolerance=4e-2)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_packed_expansions_are_quicker(dtype: str) -> None:
    packed, rows = (nanoseconds(decided(mobile(), each, dtype=dtype), dtype) for each in (EXPANSIONS, ROWS))
    assert packed < 0.95 * rows


def test_a_plan_packs_expansions() -> None:
    plan = planned(mobile(64), dtype="bfloat16")
    assert plan.decisions.value(Kind.PACK_ROWS) == "expansions"
    assert all(convolution_of(plan.graph, node.name).row_fold.count == 4 for node in nodes_of(plan.graph, "b1each"))

"""The convolution kernels against the golden model, and the plan against what it must cover."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from trninfer import simulator
from trninfer.kernels import fused_conv2d_maxpool, fused_conv2d_maxpool_packed
from trninfer.kernels.conv2d_plan import plan_conv2d, psum_pieces, ramp
from trninfer.models import golden
from trninfer.models.layout import pack_conv2d

ACTIVATIONS = ["identity", "relu", "gelu", "sigmoid", "tanh"]
HALF_TOLERANCE = {np.dtype(np.float16): 1e-3, np.dtype(ml_dtypes.bfloat16): 8e-3}  # one rounding of the result


def run(
    packed: bool, x: NDArray[Any], w: NDArray[Any], bias: NDArray[Any], target: str = "trn2", **parameters: Any
) -> NDArray[Any]:
    """The output of either kernel."""
    if packed:
        w_packed, bias_packed = pack_conv2d(w, bias)
        launch = simulator.run(
            fused_conv2d_maxpool_packed,
            x,
            w_packed,
            bias_packed,
            target=target,
            in_channels=w.shape[1],
            kernel_size=w.shape[2],
            **parameters,
        )
    else:
        launch = simulator.run(fused_conv2d_maxpool, x, w, bias, target=target, **parameters)
    output = launch.outputs[0]
    assert isinstance(output, np.ndarray)
    return output


def check(
    packed: bool,
    x: NDArray[Any],
    w: NDArray[Any],
    bias: NDArray[Any],
    target: str = "trn2",
    pool_size: int = 1,
    padding: int = 0,
    activation: str = "identity",
) -> None:
    """Compare with the golden model on the same, rounded, inputs."""
    output = run(packed, x, w, bias, target, pool_size=pool_size, padding=padding, activation=activation)
    expected = golden.conv2d(
        x.astype(np.float32), w.astype(np.float32), bias.astype(np.float32), padding, pool_size, activation
    )
    assert output.dtype == x.dtype
    assert output.shape == expected.shape
    if x.dtype == np.float32:
        # Summed in another order: the error grows with the sum of magnitudes, not with the result.
        magnitude = golden.conv2d(np.abs(x), np.abs(w), np.abs(bias), padding, pool_size)
        np.testing.assert_array_less(np.abs(output - expected), 2e-6 * magnitude + 1e-6)
    else:
        tolerance = HALF_TOLERANCE[x.dtype]
        np.testing.assert_allclose(output.astype(np.float32), expected, rtol=tolerance, atol=tolerance)


def draw(dtype: Any, *shapes: tuple[int, ...]) -> list[NDArray[Any]]:
    rng = np.random.default_rng(len(shapes[0]) + sum(shapes[0]))
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


@settings(deadline=None, max_examples=150)
@given(
    st.booleans(),
    st.integers(1, 3),
    st.sampled_from([1, 2, 3, 14, 15, 33, 64, 65, 127, 128, 129]),
    st.sampled_from([1, 2, 127, 128, 129, 257]),
    st.integers(1, 12),
    st.integers(1, 12),
    st.integers(1, 5),
    st.integers(0, 6),
    st.sampled_from([1, 2]),
    st.sampled_from(ACTIVATIONS),
    st.sampled_from([np.float32, np.float16, ml_dtypes.bfloat16]),
    st.sampled_from(["trn1", "trn2", "trn3"]),
)
def test_any_shape(
    packed: bool,
    batch: int,
    in_channels: int,
    out_channels: int,
    height: int,
    width: int,
    kernel_size: int,
    padding: int,
    pool_size: int,
    activation: str,
    dtype: Any,
    target: str,
) -> None:
    padding = max(padding, -((min(height, width) - kernel_size + 1 - pool_size) // 2))
    x, w, bias = draw(
        dtype,
        (batch, in_channels, height, width),
        (out_channels, in_channels, kernel_size, kernel_size),
        (out_channels,),
    )
    scale = np.asarray((in_channels * kernel_size**2) ** -0.5, np.float32)
    w = (w.astype(np.float32) * scale).astype(dtype)
    check(packed, x, w, bias, target, pool_size, padding, activation)


@pytest.mark.parametrize("pool_size", [1, 2])
@pytest.mark.parametrize("use_bias", [False, True])
@pytest.mark.parametrize(("in_channels", "out_channels"), [(128, 128), (256, 256), (128, 256), (256, 128)])
def test_stanford_harness_cases(in_channels: int, out_channels: int, use_bias: bool, pool_size: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.random((4, in_channels, 32, 16)).astype(np.float32)
    w = rng.random((out_channels, in_channels, 3, 3)).astype(np.float32)
    bias = rng.random(out_channels).astype(np.float32) if use_bias else np.zeros(out_channels, np.float32)
    output = run(False, x, w, bias, pool_size=pool_size)
    assert np.allclose(output, golden.conv2d(x, w, bias, 0, pool_size))


def test_stanford_harness_large_image() -> None:
    rng = np.random.default_rng(0)
    x = rng.random((1, 256, 224, 224)).astype(np.float32)
    w = rng.random((256, 256, 3, 3)).astype(np.float32)
    bias = rng.random(256).astype(np.float32)
    assert np.allclose(run(False, x, w, bias, pool_size=2), golden.conv2d(x, w, bias, 0, 2))


# Each is cut up in another way: (batch, in_channels, out_channels, height, width, kernel_size, padding, pool_size)
LARGE = {
    "rows in groups with a halo": (2, 130, 8, 70, 66, 3, 1, 2),
    "odd rows and columns dropped": (1, 130, 8, 71, 67, 3, 0, 2),
    "more columns than a bank holds": (1, 33, 2, 5, 1100, 3, 1, 1),
    "more columns than a pooled bank holds": (1, 33, 2, 7, 601, 2, 0, 2),
    "columns in blocks": (1, 300, 2, 7, 6000, 3, 1, 2),
    "the whole filter in partitions, rows in groups": (1, 3, 5, 120, 130, 3, 1, 1),
    "filter rows in partitions, rows in groups": (1, 40, 5, 66, 60, 5, 2, 1),
    "weights for two tiles of output channels do not fit": (1, 600, 200, 6, 7, 5, 1, 1),
    "weights for 128 output channels do not fit": (2, 1100, 130, 6, 5, 5, 0, 1),
    "filters laid out in several pieces": (1, 128, 3, 11, 13, 9, 0, 1),
    "filters laid out in several pieces, rows in partitions": (1, 60, 70, 40, 41, 33, 0, 1),
    "many images to a bank": (37, 8, 9, 5, 4, 3, 1, 1),
    "many images to a bank, pooled": (37, 150, 3, 5, 6, 3, 1, 2),
    "batch of one pixel": (700, 5, 3, 1, 1, 1, 0, 1),
    "513 channels": (1, 513, 513, 4, 4, 1, 0, 1),
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("case", LARGE)
def test_what_does_not_fit_is_cut_up(case: str, packed: bool) -> None:
    batch, in_channels, out_channels, height, width, kernel_size, padding, pool_size = LARGE[case]
    x, w, bias = draw(
        np.float32,
        (batch, in_channels, height, width),
        (out_channels, in_channels, kernel_size, kernel_size),
        (out_channels,),
    )
    check(packed, x, w, bias, "trn1", pool_size, padding, "gelu" if pool_size == 2 else "relu")


def test_gelu_is_applied_before_the_maximum() -> None:
    """gelu(-0.7) < gelu(-3): taking the maximum first would give the smaller value."""
    x = np.array([-0.7, -3.0, -0.7, -0.7], np.float32).reshape(1, 1, 2, 2)
    output = run(False, x, np.ones((1, 1, 1, 1), np.float32), np.zeros(1, np.float32), pool_size=2, activation="gelu")
    assert output.item() == pytest.approx(golden.activate(np.array([-3.0], np.float32), "gelu").item(), abs=1e-6)


@settings(deadline=None, max_examples=60)
@given(
    st.booleans(),
    st.integers(1, 3),
    st.sampled_from([43, 64, 65, 129]),
    st.sampled_from([1, 128, 130]),
    st.integers(6, 40),
    st.integers(16, 40),
    st.integers(0, 3),
    st.sampled_from([1, 2]),
    st.sampled_from(ACTIVATIONS),
    st.sampled_from(["trn1", "trn2", "trn3"]),
)
def test_columns_in_pairs(
    packed: bool,
    batch: int,
    in_channels: int,
    out_channels: int,
    height: int,
    width: int,
    padding: int,
    pool_size: int,
    activation: str,
    target: str,
) -> None:
    """3x3 filters in float32 on images that are large enough for the minimal filtering algorithm, and around there."""
    x, w, bias = draw(
        np.float32, (batch, in_channels, height, width), (out_channels, in_channels, 3, 3), (out_channels,)
    )
    check(packed, x, w / in_channels**0.5, bias, target, pool_size, padding, activation)


@pytest.mark.parametrize("in_channels", [3, 40, 64, 130])  # each way to share the partition axis
def test_infinity_stays_where_the_filter_reaches(in_channels: int) -> None:
    x, w, bias = draw(np.float32, (1, in_channels, 30, 32), (4, in_channels, 3, 3), (4,))
    x[0, 1, 10, 20] = np.inf
    finite = np.isfinite(run(False, x, w, bias, padding=1))[0]
    rows, columns = np.nonzero(~finite.all(axis=0))
    assert set(rows) == {9, 10, 11}
    assert {19, 20, 21} <= set(columns) <= {18, 19, 20, 21, 22}


def test_pairs_are_used_where_they_pay() -> None:
    large = plan_conv2d(1, 256, 224, 224, 256, 3, 1, 0, 4, False, 224 * 1024)
    assert large.paired
    for smaller in (
        plan_conv2d(1, 256, 224, 224, 256, 3, 1, 0, 2, False, 224 * 1024),  # 16 bits
        plan_conv2d(1, 256, 224, 224, 256, 5, 1, 0, 4, False, 224 * 1024),  # 5x5
        plan_conv2d(1, 3, 224, 224, 256, 3, 1, 0, 4, False, 224 * 1024),  # the filter in one matmul
        plan_conv2d(1, 256, 10, 10, 256, 3, 1, 0, 4, False, 224 * 1024),
    ):  # bound by loading weights
        assert not smaller.paired


@pytest.mark.parametrize("packed", [False, True])
def test_every_input_is_loaded_once(packed: bool) -> None:
    """With 128 channels or more, HBM traffic is the input, the weights, the biases and the output, each once."""
    x, w, bias = draw(np.float32, (2, 130, 100, 60), (70, 130, 3, 3), (70,))
    if packed:
        w_packed, bias_packed = pack_conv2d(w, bias)
        launch = simulator.run(fused_conv2d_maxpool_packed, x, w_packed, bias_packed, in_channels=130, kernel_size=3)
    else:
        launch = simulator.run(fused_conv2d_maxpool, x, w, bias)
    output = launch.outputs[0]
    assert output is not None
    assert launch.hbm_bytes == x.nbytes + w.nbytes + bias.nbytes + output.nbytes


def arguments(**changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "x": np.zeros((1, 4, 6, 6), np.float32),
        "w": np.zeros((5, 4, 3, 3), np.float32),
        "bias": np.zeros(5, np.float32),
    }
    return values | changes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": np.zeros((4, 6, 6), np.float32)}, "x must be [B, Cin, H, W], came (4, 6, 6)"),
        ({"x": np.zeros((1, 3, 6, 6), np.float32)}, "x has 3 channels, the filters 4"),
        ({"w": np.zeros((5, 4, 9), np.float32)}, "w must be [Cout, Cin, k, k], came (5, 4, 9)"),
        ({"w": np.zeros((5, 4, 3, 2), np.float32)}, "filters must be square, came 3x2"),
        ({"w": np.zeros((5, 4, 3, 3), np.float16)}, "w must have the dtype of x, float32, came float16"),
        ({"w": np.zeros((5, 4, 7, 7), np.float32)}, "6x6 with padding 0 is too small for filters of 7x7"),
        ({"bias": np.zeros(4, np.float32)}, "bias must be [5], came (4,)"),
        ({"bias": np.zeros(5, np.float16)}, "bias must be float32 or have the dtype of x, float32, came float16"),
        ({"pool_size": 3}, "pool_size must be 1 or 2, came 3"),
        ({"padding": -1}, "padding must be at least 0, came -1"),
        ({"activation": "swish"}, "activation must be identity, relu, gelu, sigmoid or tanh, came swish"),
    ],
)
def test_what_cannot_be_computed_is_told(changes: dict[str, Any], message: str) -> None:
    values = arguments(**changes)
    with pytest.raises(AssertionError) as error:
        simulator.run(fused_conv2d_maxpool, values.pop("x"), values.pop("w"), values.pop("bias"), **values)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"w": np.zeros((36, 5, 1), np.float32)}, "w_packed must be two-dimensional, came (36, 5, 1)"),
        ({"w": np.zeros((36, 5), np.float16)}, "w_packed must have the dtype of x, float32, came float16"),
        ({"w": np.zeros((36, 5), np.float32)}, "must have 116 rows for 4 channels and filters of 3x3, came 36"),
        ({"kernel_size": 6, "w": np.zeros((24, 10), np.float32)}, "must be a multiple of the 6 matmuls of a filter"),
        ({"bias": np.zeros((5, 1), np.float16)}, "bias_packed must be float32, came float16"),
        ({"bias": np.zeros((1, 5), np.float32)}, "bias_packed must be [5, 1] for 5 output channels, came (1, 5)"),
        ({"x": np.zeros((1, 4, 6, 6), np.int32)}, "w_packed must have the dtype of x, int32, came float32"),
    ],
)
def test_what_is_packed_wrongly_is_told(changes: dict[str, Any], message: str) -> None:
    values = arguments(w=np.zeros((116, 5), np.float32), bias=np.zeros((5, 1), np.float32), kernel_size=3) | changes
    with pytest.raises(AssertionError) as error:
        simulator.run(
            fused_conv2d_maxpool_packed,
            values["x"],
            values["w"],
            values["bias"],
            in_channels=4,
            kernel_size=values["kernel_size"],
        )
    assert message in str(error.value)


def test_dtypes_that_the_tensor_engine_does_not_take_are_told() -> None:
    values = arguments(x=np.zeros((1, 4, 6, 6), np.int32), w=np.zeros((5, 4, 3, 3), np.int32))
    with pytest.raises(AssertionError, match="x must be float32, bfloat16 or float16, came int32"):
        simulator.run(fused_conv2d_maxpool, values["x"], values["w"], values["bias"])


def test_filters_too_large_for_sbuf_are_told() -> None:
    with pytest.raises(AssertionError, match=r"the filters of one output channel take \d+ bytes of a partition"):
        plan_conv2d(1, 65536, 80, 80, 1, 63, 1, 0, 4, True, 192 * 1024)


@settings(deadline=None, max_examples=200)
@given(
    st.integers(1, 9),
    st.integers(1, 600),
    st.integers(1, 300),
    st.one_of(st.integers(1, 300), st.just(20000)),
    st.integers(1, 300),
    st.integers(1, 9),
    st.integers(1, 2),
    st.integers(0, 4),
    st.sampled_from([2, 4]),
    st.booleans(),
    st.sampled_from([192 * 1024, 224 * 1024, 256 * 1024]),
)
def test_a_plan_covers_the_output_once_and_fits(
    batch: int,
    in_channels: int,
    height: int,
    width: int,
    out_channels: int,
    kernel_size: int,
    pool_size: int,
    padding: int,
    item_bytes: int,
    packed: bool,
    sbuf_bytes: int,
) -> None:
    if min(height, width) + 2 * padding - kernel_size + 1 < pool_size:
        return
    plan = plan_conv2d(
        batch, in_channels, height, width, out_channels, kernel_size, pool_size, padding, item_bytes, packed, sbuf_bytes
    )
    covered = 0
    expected_row: dict[tuple[int, int], int] = {}
    loaded = 0
    for group in plan.groups:
        image, images, row, rows, column, columns = group
        for i in range(image, image + images):
            assert expected_row.get((i, column), 0) == row  # rows of a column block come in order: the halo is there
            expected_row[(i, column)] = row + rows
        covered += images * rows * columns
        assert rows % pool_size == 0 and columns % pool_size == 0
        pieces = psum_pieces(plan, group)
        assert sum(p[1] * p[3] * p[5] for p in pieces) == images * rows * columns
        for _, piece_images, _, piece_rows, _, piece_columns in pieces:
            bank_columns = -(-piece_columns // 2) if plan.paired else piece_columns
            assert piece_images * piece_rows * bank_columns <= 512
            assert piece_rows % pool_size == 0 and piece_columns % pool_size == 0
            assert piece_images == 1 or (piece_rows, piece_columns) == (plan.out_rows, plan.out_columns)
        item = len(plan.channel_tiles) * item_bytes * (3 if plan.paired else 1)
        group_bytes = images * (rows + plan.reach_rows) * (columns + plan.reach_columns) * item
        loaded = max(loaded, group_bytes + images * rows * columns // pool_size**2 * item_bytes)
    assert covered == batch * plan.out_rows * plan.out_columns
    matrices = len(plan.steps) * 4 // 3 if plan.paired else len(plan.steps)
    weights = plan.resident_tiles * plan.out_tiles[0][1] * len(plan.channel_tiles) * matrices * item_bytes
    assert min(2, len(plan.groups)) * loaded + weights <= sbuf_bytes - 8 * 1024


@given(st.integers(1, 500), st.integers(1, 10), st.integers(0, 30), st.booleans(), st.booleans())
def test_group_sizes_add_up(total: int, smallest: int, more: int, rising: bool, falling: bool) -> None:
    largest = smallest + more
    sizes = ramp(total, smallest, largest, rising, falling)
    assert sum(sizes) == total
    assert max(sizes) <= largest and min(sizes) >= 1
    assert not rising or sizes[0] <= smallest
    assert not falling or sizes[-1] <= smallest

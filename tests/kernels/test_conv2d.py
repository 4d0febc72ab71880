"""The convolution kernels, compared with the golden model, and the plan, compared with the output that it must
cover."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from trninfer import simulator
from trninfer.kernels import fused_conv2d_maxpool, fused_conv2d_maxpool_packed
from trninfer.models import golden
from trninfer.models.layout import pack_conv2d

ACTIVATIONS = ["identity", "relu", "gelu", "sigmoid", "tanh"]
HALF_TOLERANCE = {np.dtype(np.float16): 1e-3, np.dtype(ml_dtypes.bfloat16): 8e-3}  # one rounding of the result


def run(
    packed: bool, x: NDArray[Any], w: NDArray[Any], bias: NDArray[Any], target: str = "trn2", **parameters: Any
) -> NDArray[Any]:
    """Return the output of either kernel."""
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
    """Compare with the golden model on the same rounded inputs."""
    output = run(packed, x, w, bias, target, pool_size=pool_size, padding=padding, activation=activation)
    expected = golden.conv2d(
        x.astype(np.float32), w.astype(np.float32), bias.astype(np.float32), padding, pool_size, activation
    )
    assert output.dtype == x.dtype
    assert output.shape == expected.shape
    if x.dtype == np.float32:
        # The order of summation differs, so the error grows with the sum of magnitudes rather than with the result.
        magnitude = golden.conv2d(np.abs(x), np.abs(w), np.abs(bias), padding, pool_size)
        np.testing.assert_array_less(np.abs(output - expected), 2e-6 * magnitude + 1e-6)
    else:
        tolerance = HALF_TOLERANCE[x.dtype]
        np.testing.assert_allclose(output.astype(np.float32), expected, rtol=tolerance, atol=tolerance)


def draw(dtype: Any, *shapes: tuple[int, ...]) -> list[NDArray[Any]]:
    rng = np.random.default_rng(len(shapes[0]) + sum(shapes[0]))
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


@settings(deadline=None, max_examples=100)
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
@example(False, 1, 1, 1, 1, 1, 1, 6, 1, "relu", np.float16, "trn1")  # the Vector Engine adds a 16-bit bias
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


@pytest.mark.slow
def test_stanford_harness_large_image() -> None:
    rng = np.random.default_rng(0)
    x = rng.random((1, 256, 224, 224)).astype(np.float32)
    w = rng.random((256, 256, 3, 3)).astype(np.float32)
    bias = rng.random(256).astype(np.float32)
    assert np.allclose(run(False, x, w, bias, pool_size=2), golden.conv2d(x, w, bias, 0, 2))


def reference(x: Any, w: Any, bias: Any, stride: Any, dilation: Any, padding: Any, groups: int, pool: int) -> Any:
    """Convolve in float64 by definition, one tap at a time."""
    top, left, bottom, right = padding
    x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (top, bottom), (left, right)))
    rows, columns = ((x.shape[2 + a] - dilation[a] * (w.shape[2 + a] - 1) - 1) // stride[a] + 1 for a in (0, 1))
    result = np.zeros((len(x), len(w), rows, columns))
    each_in, each_out = w.shape[1], len(w) // groups
    for group in range(groups):
        seen, out = x[:, group * each_in :][:, :each_in], slice(group * each_out, (group + 1) * each_out)
        for i, j in np.ndindex(w.shape[2:]):
            tap = seen[:, :, i * dilation[0] :: stride[0], j * dilation[1] :: stride[1]][:, :, :rows, :columns]
            result[:, out] += np.tensordot(w[out, :, i, j].astype(np.float64), tap, (1, 1)).swapaxes(0, 1)
    result += bias[:, None, None]
    rows, columns = rows // pool * pool, columns // pool * pool
    windows = result[:, :, :rows, :columns].reshape(len(x), len(w), rows // pool, pool, columns // pool, pool)
    return windows.max(axis=(3, 5))


def check_general(
    packed: bool,
    x: Any,
    w: Any,
    bias: Any,
    stride: Any,
    dilation: Any,
    padding: Any,
    groups: int,
    pool: int,
    target: str = "trn2",
) -> None:
    """Compare either kernel with the definition."""
    options = {"stride": stride, "dilation": dilation, "padding": padding, "groups": groups, "pool_size": pool}
    if packed:
        sizes = {"in_channels": x.shape[1], "kernel_size": tuple(w.shape[2:]), "out_channels": len(w)}
        launch = simulator.run(
            fused_conv2d_maxpool_packed, x, *pack_conv2d(w, bias, groups), **sizes, **options, target=target
        )
    else:
        launch = simulator.run(fused_conv2d_maxpool, x, w, bias, **options, target=target)
    expected = reference(x, w, bias, stride, dilation, padding, groups, pool)
    assert launch.outputs[0].shape == expected.shape
    tolerance = 1e-5 if x.dtype == np.float32 else HALF_TOLERANCE[x.dtype]
    magnitude = reference(np.abs(x), np.abs(w), np.abs(bias), stride, dilation, padding, groups, 1).max()
    np.testing.assert_allclose(launch.outputs[0].astype(np.float64), expected, atol=tolerance * magnitude, rtol=0)


pair = st.tuples(st.integers(1, 4), st.integers(1, 4))


@pytest.mark.slow
@settings(deadline=None, max_examples=80)
@given(st.data())
def test_any_stride_dilation_padding_window_and_groups(data: st.DataObject) -> None:
    kernel = data.draw(st.tuples(st.integers(1, 7), st.integers(1, 7)))
    stride, dilation = data.draw(pair), data.draw(pair)
    padding = data.draw(st.tuples(*[st.integers(0, 5)] * 4))
    groups = data.draw(st.sampled_from([1, 1, 2, 3, 32, 129]))
    each_in, each_out = data.draw(st.sampled_from([(1, 1), (3, 2), (4, 4), (1, 5), (33, 64), (130, 3), (2, 129)]))
    if groups > 3:
        each_in, each_out = min(each_in, 4), min(each_out, 3)
    pool = data.draw(st.sampled_from([1, 2]))
    least = [
        max(1, (pool - 1) * stride[a] + dilation[a] * (kernel[a] - 1) + 1 - padding[a] - padding[a + 2]) for a in (0, 1)
    ]
    sides = [side + data.draw(st.integers(0, 20)) for side in least]
    dtype = data.draw(st.sampled_from([np.float32, np.float16, ml_dtypes.bfloat16]))
    x, w = draw(dtype, (data.draw(st.integers(1, 3)), groups * each_in, *sides), (groups * each_out, each_in, *kernel))
    bias = np.arange(len(w), dtype=np.float32) / 7
    target = data.draw(st.sampled_from(["trn1", "trn2", "trn3"]))
    check_general(data.draw(st.booleans()), x, w, bias, stride, dilation, padding, groups, pool, target=target)


# Layers of popular networks: (Cin, Cout, side, kernel, stride, dilation, padding, groups)
KNOWN = {
    "ResNet's first": (3, 64, 112, (7, 7), (2, 2), (1, 1), (3, 3, 3, 3), 1),
    "AlexNet's first": (3, 64, 99, (11, 11), (4, 4), (1, 1), (2, 2, 2, 2), 1),
    "a strided shortcut": (130, 70, 28, (1, 1), (2, 2), (1, 1), (0, 0, 0, 0), 1),
    "a strided 3x3, rows in groups": (130, 16, 80, (3, 3), (2, 2), (1, 1), (0, 0, 1, 1), 1),
    "ResNeXt's": (128, 128, 14, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 32),
    "depthwise, more channels than partitions": (200, 200, 13, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), 200),
    "dilated": (64, 64, 33, (3, 3), (1, 1), (6, 6), (6, 6, 6, 6), 1),
    "Inception's 1x7": (64, 96, 17, (1, 7), (1, 1), (1, 1), (0, 3, 0, 3), 1),
    "Inception's 7x1": (64, 96, 17, (7, 1), (1, 1), (1, 1), (3, 0, 3, 0), 1),
    "padding wider than the filter": (5, 6, 9, (2, 2), (3, 1), (1, 2), (4, 4, 0, 5), 1),
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", KNOWN)
def test_layers_that_networks_have(name: str, packed: bool) -> None:
    in_channels, out_channels, side, kernel, stride, dilation, padding, groups = KNOWN[name]
    x, w = draw(np.float32, (1, in_channels, side, side), (out_channels, in_channels // groups, *kernel))
    check_general(packed, x, w, np.ones(out_channels, np.float32), stride, dilation, padding, groups, 1)


def test_first_layers_share_the_partition_axis() -> None:
    """7x7 with stride 2 on three channels: seven matmuls per PSUM tile instead of 49, and every row of an image is
    loaded once."""
    x, w = draw(np.float16, (1, 3, 64, 64), (8, 3, 7, 7))
    sizes = {"in_channels": 3, "kernel_size": 7, "stride": (2, 2), "padding": 3}
    launch = simulator.run(fused_conv2d_maxpool_packed, x, *pack_conv2d(w, np.zeros(8)), **sizes)
    matmuls = [i for i in launch.program if i.op == "nc_matmul"]
    assert len(matmuls) == 7 * 5  # 32 x 32 pixels fill two banks; the last group is in four pieces


# Each is divided differently: (batch, in_channels, out_channels, height, width, kernel_size, padding, pool_size)
LARGE = {
    "rows in groups with a halo": (2, 130, 8, 70, 66, 3, 1, 2),
    "odd rows and columns dropped": (1, 130, 8, 71, 67, 3, 0, 2),
    "more columns than a bank holds": (1, 33, 2, 5, 1100, 3, 1, 1),
    "more columns than a pooled bank holds": (1, 33, 2, 7, 601, 2, 0, 2),
    "columns in blocks": (1, 300, 2, 5, 4000, 3, 1, 2),
    "the whole filter in partitions, rows in groups": (1, 3, 5, 120, 130, 3, 1, 1),
    "filter rows in partitions, rows in groups": (1, 40, 5, 66, 60, 5, 2, 1),
    "weights for two tiles of output channels do not fit": (1, 600, 200, 6, 7, 5, 1, 1),
    "weights for 128 output channels do not fit": (2, 1100, 130, 6, 5, 5, 0, 1),
    "filters laid out in several pieces": (1, 128, 3, 11, 13, 9, 0, 1),
    "filters laid out in several pieces, rows in partitions": (1, 60, 70, 20, 21, 17, 0, 1),
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


@settings(deadline=None, max_examples=40)
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
    """3x3 filters in float32 on images that are large enough for minimal filtering, or slightly too small."""
    x, w, bias = draw(
        np.float32, (batch, in_channels, height, width), (out_channels, in_channels, 3, 3), (out_channels,)
    )
    check(packed, x, w / in_channels**0.5, bias, target, pool_size, padding, activation)


@pytest.mark.parametrize("in_channels", [3, 40, 64, 130])  # all ways to share the partition axis
def test_infinity_stays_where_the_filter_reaches(in_channels: int) -> None:
    x, w, bias = draw(np.float32, (1, in_channels, 30, 32), (4, in_channels, 3, 3), (4,))
    x[0, 1, 10, 20] = np.inf
    finite = np.isfinite(run(False, x, w, bias, padding=1))[0]
    rows, columns = np.nonzero(~finite.all(axis=0))
    assert set(rows) == {9, 10, 11}
    assert {19, 20, 21} <= set(columns) <= {18, 19, 20, 21, 22}


@pytest.mark.parametrize("packed", [False, True])
def test_every_input_is_loaded_once(packed: bool) -> None:
    """With 128 channels or more, the HBM traffic consists of the input, the weights, the biases and the output, once
    each."""
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
        ({"x": np.zeros((4, 6, 6), np.float32)}, "x must be [B, Cin, H, W], got (4, 6, 6)"),
        ({"x": np.zeros((1, 3, 6, 6), np.float32)}, "x has 3 channels, but the filters have 4"),
        ({"w": np.zeros((5, 4, 9), np.float32)}, "w must be [Cout, Cin / groups, kh, kw], got (5, 4, 9)"),
        (
            {"w": np.zeros((6, 3, 3, 3), np.float32), "bias": np.zeros(6, np.float32), "groups": 2},
            "x has 4 channels, but the filters have 6",
        ),
        (
            {"groups": 5, "w": np.zeros((6, 4, 3, 3), np.float32), "bias": np.zeros(6, np.float32)},
            "6 output channels cannot be divided into 5 groups",
        ),
        ({"stride": (0, 1)}, "stride and dilation must be at least 1, got (0, 1) and (1, 1)"),
        ({"padding": (1, 2, 3)}, "padding must be a number or (top, left, bottom, right), at least 0, got (1, 2, 3)"),
        ({"w": np.zeros((5, 4, 3, 3), np.float16)}, "w must have the dtype of x, float32, got float16"),
        ({"w": np.zeros((5, 4, 7, 7), np.float32)}, "6x6 with padding (0, 0, 0, 0) is too small for filters of 7x7"),
        ({"bias": np.zeros(4, np.float32)}, "bias must be [5], got (4,)"),
        ({"bias": np.zeros(5, np.float16)}, "bias must be float32 or have the dtype of x, float32, got float16"),
        ({"pool_size": 3}, "pool_size must be 1 or 2, got 3"),
        ({"padding": -1}, "padding must be a number or (top, left, bottom, right), at least 0, got -1"),
        ({"activation": "swish"}, "there is no activation swish"),
    ],
)
def test_what_cannot_be_computed_is_reported(changes: dict[str, Any], message: str) -> None:
    values = arguments(**changes)
    with pytest.raises(AssertionError) as error:
        simulator.run(fused_conv2d_maxpool, values.pop("x"), values.pop("w"), values.pop("bias"), **values)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"w": np.zeros((36, 5, 1), np.float32)}, "w_packed must be two-dimensional, got (36, 5, 1)"),
        ({"w": np.zeros((36, 5), np.float16)}, "w_packed must have the dtype of x, float32, got float16"),
        (
            {"w": np.zeros((36, 5), np.float32)},
            "must have 116 rows for 4 channels in 1 groups and",
        ),
        ({"kernel_size": 6, "w": np.zeros((109, 10), np.float32)}, "must be a multiple of 6, the number of matmuls"),
        ({"bias": np.zeros((5, 1), np.float16)}, "bias_packed must be float32, got float16"),
        ({"bias": np.zeros((1, 5), np.float32)}, "bias_packed must be [5, 1] for 5 output channels, got (1, 5)"),
        ({"x": np.zeros((1, 4, 6, 6), np.int32)}, "w_packed must have the dtype of x, int32, got float32"),
    ],
)
def test_what_is_packed_wrongly_is_reported(changes: dict[str, Any], message: str) -> None:
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


def test_dtypes_that_the_tensor_engine_does_not_take_are_reported() -> None:
    values = arguments(x=np.zeros((1, 4, 6, 6), np.int32), w=np.zeros((5, 4, 3, 3), np.int32))
    with pytest.raises(AssertionError, match="x must be float32, bfloat16 or float16, got int32"):
        simulator.run(fused_conv2d_maxpool, values["x"], values["w"], values["bias"])

"""Pools of windows and of whole images, compared with ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx_chain import Chain, assert_imports, ends
from onnx_runtime_faults import miscounts
from trninfer.models.errors import ModelError
from trninfer.models.importing import import_network


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    side=st.tuples(st.integers(4, 12), st.integers(4, 12)),
    window=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    strides=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    pads=st.tuples(*[st.integers(0, 1)] * 4),
    ceil_mode=st.integers(0, 1),
    op=st.sampled_from(["MaxPool", "AveragePool"]),
    include=st.integers(0, 1),
    dilations=st.tuples(st.integers(1, 2), st.integers(1, 2)),
)
def test_pools_of_any_geometry(side, window, strides, pads, ceil_mode, op, include, dilations, tmp_path: Path) -> None:
    chain = Chain(3, *side)
    pads = [min(pad, size - 1) for pad, size in zip(pads, window * 2)]
    include = include and not miscounts(1, pads, ceil_mode)
    more = {"count_include_pad": int(include)} if op == "AveragePool" else {}
    fits = all((size - 1) * step < room for size, step, room in zip(window, dilations, side))
    dilations = dilations if fits else (1, 1)
    chain.add(op, kernel_shape=window, strides=strides, pads=pads, ceil_mode=ceil_mode, dilations=dilations, **more)
    chain.add("GlobalAveragePool")
    ends(chain, 3, tmp_path)


@pytest.mark.parametrize("include", [0, 1])
@pytest.mark.parametrize(
    "geometry",
    [
        {"kernel_shape": [2560, 2560], "strides": [2560, 2560]},
        {"kernel_shape": [9, 2], "strides": [9, 2]},
        {"kernel_shape": [9, 9], "strides": [4, 5], "pads": [1, 1, 0, 1]},
    ],
)
def test_windows_larger_than_the_image(geometry: dict, include: int, tmp_path: Path) -> None:
    if miscounts(include, geometry.get("pads", [0]), 1):
        pytest.skip("this ONNX Runtime divides by the wrong number")
    chain = Chain(3, 6, 5)
    chain.add("AveragePool", ceil_mode=1, count_include_pad=include, **geometry)
    chain.add("MaxPool", kernel_shape=[40, 40], strides=[40, 40], ceil_mode=1)
    ends(chain, 3, tmp_path)


@pytest.mark.parametrize(("side", "kernel", "stride"), [(2, 3, 2), (4, 6, 3)])
def test_automatic_padding_of_windows_larger_than_the_image(
    side: int, kernel: int, stride: int, tmp_path: Path
) -> None:
    chain = Chain(3, side, side)
    chain.add("MaxPool", kernel_shape=[kernel] * 2, strides=[stride] * 2, ceil_mode=1, auto_pad="SAME_UPPER")
    chain.add("Flatten")
    assert_imports(chain, tmp_path)


def test_dilated_windows_larger_than_the_image_are_not_cut_to_two(tmp_path: Path) -> None:
    chain = Chain(3, 5, 5)
    chain.add("MaxPool", kernel_shape=[3, 3], strides=[3, 3], dilations=[3, 3], ceil_mode=1)
    chain.add("Flatten")
    with pytest.raises(ModelError):
        import_network(chain.save(tmp_path))


@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("LpPool", {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("LpPool", {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "p": 1}),
        ("LpPool", {"kernel_shape": [2, 3], "dilations": [2, 1], "p": 3}),
        ("LpPool", {"kernel_shape": [3, 3], "auto_pad": "SAME_UPPER"}),
        ("LpPool", {"kernel_shape": [1, 3], "p": 1}),
        ("GlobalLpPool", {"p": 2}),
    ],
)
def test_pools_of_norms(op: str, attributes: dict, tmp_path: Path) -> None:
    chain = Chain(3, 7, 8)
    chain.conv((3, 2))
    chain.add(op, **attributes)
    sizes = {"LpPool": {(2, 2): 12, (3, 2): 60, (2, 3): 24, (3, 3): 60, (1, 3): 40}, "GlobalLpPool": {(): 2}}
    ends(chain, sizes[op][tuple(attributes.get("kernel_shape", ()))], tmp_path)


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize(
    "how",
    [
        {"kernel_shape": [2, 2, 2], "strides": [2, 2, 2]},
        {"kernel_shape": [3, 3, 3], "strides": [2, 2, 2], "pads": [1] * 6},
        {"kernel_shape": [2, 1, 3], "strides": [1, 1, 2], "pads": [0, 0, 1, 1, 0, 0]},
        {"kernel_shape": [2, 2, 1], "ceil_mode": 1, "strides": [3, 2, 1]},
        {"kernel_shape": [3, 2, 2], "auto_pad": "SAME_UPPER", "strides": [2, 1, 2]},
    ],
)
def test_pools_of_three_sides(op: str, how: dict, tmp_path: Path) -> None:
    chain = Chain(10, 6, 7)
    chain.add("Reshape", chain.constant([0, 2, 5, 6, 7]))
    chain.add(op, **how)
    chain.add("ReduceSum", chain.constant([2, 3, 4]), keepdims=0)
    ends(chain, 2, tmp_path)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_local_response_as_pytorch_spells_it(size: int, tmp_path: Path) -> None:
    chain = Chain(6, 5, 4)
    source = chain.add("Relu")
    chain.add("Mul", source)
    chain.add("Reshape", chain.constant([0, 1, 6, 5, -1]))
    chain.add("Pad", chain.constant([0, 0, size // 2, 0, 0, 0, 0, (size - 1) // 2, 0, 0]))
    chain.add("AveragePool", kernel_shape=[size, 1, 1], strides=[1, 1, 1], count_include_pad=1)
    chain.add("Squeeze", chain.constant([1]))
    chain.add("Mul", chain.constant(0.5))
    chain.add("Add", chain.constant(2.0))
    chain.add("Pow", chain.constant(0.75))
    chain.add("Div", chain.value, first=source)
    ends(chain, 120, tmp_path)

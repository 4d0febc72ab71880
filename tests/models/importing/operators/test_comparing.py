"""Comparisons, logic and selection, as exporters use them in activations."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto
from onnx_chain import Chain, assert_imports, checked, ends, kinds
from trninfer.models import Activation, Conv2d
from trninfer.models.errors import ModelError
from trninfer.models.importing import import_network

BOOL, FLOAT = TensorProto.BOOL, TensorProto.FLOAT


def image() -> Chain:
    chain = Chain(2, 5, 4)
    chain.conv((2, 3))
    return chain


@pytest.mark.parametrize("op", ["Greater", "Less", "GreaterOrEqual", "LessOrEqual", "Equal"])
@pytest.mark.parametrize("limit", [0.25, 0.0, "channels", "data", "first"])
def test_comparisons(op: str, limit: object, tmp_path: Path) -> None:
    chain = image()
    x = chain.add("Clip", chain.constant(-1.0), chain.constant(0.25))  # so that some values equal the limit
    if limit == "channels":
        chain.add(op, chain.constant(np.array([0.25, -0.1, -1.0]).reshape(1, 3, 1, 1)))
    elif limit == "data":
        other = chain.add("Mul", chain.constant(0.5))
        chain.add(op, other, first=x)
    elif limit == "first":
        chain.add(op, x, first=chain.constant(0.25))
    else:
        chain.add(op, chain.constant(limit))
    chain.add("Cast", to=FLOAT)
    ends(chain, 3 * 3 * 2, tmp_path)


@pytest.mark.parametrize("op", ["And", "Or", "Xor"])
def test_logic_and_choice(op: str, tmp_path: Path) -> None:
    chain = image()
    x = chain.value
    above = chain.add("Greater", chain.constant(0.1))
    below = chain.add("Less", chain.constant(0.4), first=x)
    both = chain.add(op, below, first=above)
    condition = chain.add("Not") if op == "Xor" else both
    y = chain.add("Neg", first=x)
    chain.add("Where", x, y, first=condition)
    ends(chain, 3 * 3 * 2, tmp_path)


@pytest.mark.parametrize("op", ["And", "Or"])
@pytest.mark.parametrize("place", [0, 1])
def test_logic_with_numbers_of_the_file(op: str, place: int, tmp_path: Path) -> None:
    chain = image()
    mask = chain.constant(np.random.default_rng(0).integers(0, 2, (1, 3, 3, 2)))
    names = [chain.add("Greater", chain.constant(0.1)), chain.add("Cast", first=mask, to=BOOL)]
    chain.add(op, names[1 - place], first=names[place])
    chain.add("Cast", to=FLOAT)
    ends(chain, 3 * 3 * 2, tmp_path)


def test_a_cast_to_a_truth_value(tmp_path: Path) -> None:
    chain = image()
    chain.add("Relu")
    chain.add("Cast", to=BOOL)
    chain.add("Not")
    chain.add("Cast", to=FLOAT)
    ends(chain, 3 * 3 * 2, tmp_path)


@pytest.mark.parametrize("values", [("x", 0.0), (0.0, "x"), (2.5, "x"), ("x", -1.5), (0.25, 4.0), ("x", "y")])
def test_choices_among_data_and_numbers(values: tuple, tmp_path: Path) -> None:
    chain = image()
    names = {"x": chain.value}
    names["y"] = chain.add("Relu")
    chain.add("Greater", chain.constant(0.1), first=names["x"])
    chosen = [names[value] if isinstance(value, str) else chain.constant(value) for value in values]
    chain.add("Where", *chosen, first=chain.value)
    ends(chain, 3 * 3 * 2, tmp_path)


def test_what_is_not_chosen_may_be_infinite(tmp_path: Path) -> None:
    """ELU and softplus as users write them: the exponential of large inputs is not selected."""
    chain = Chain(4)
    x = chain.add("Mul", chain.constant(100.0))
    large = chain.add("Exp")
    above = chain.add("Greater", chain.constant(0.0), first=x)
    chain.add("Where", x, large, first=above)
    chain.add("Mul", chain.constant(0.01))
    assert_imports(chain, tmp_path)


@pytest.mark.parametrize("mask", [0, 1])
def test_a_choice_by_numbers_of_the_file(mask: int, tmp_path: Path) -> None:
    chain = image()
    x = chain.value
    y = chain.add("Relu")
    chosen = np.random.default_rng(mask).integers(0, 2, (1, 3, 3, 2))
    condition = chain.add("Cast", first=chain.constant(chosen), to=BOOL)
    chain.add("Where", x, y, first=condition)
    ends(chain, 3 * 3 * 2, tmp_path)


@pytest.mark.parametrize("shape", [(1, 3, 3, 2), (3, 1, 2), (1, 1), (4, 3, 3, 2)])
@pytest.mark.parametrize("place", [0, 1])
def test_entries_are_filled_with_numbers_of_the_file(place: int, shape: tuple[int, ...], tmp_path: Path) -> None:
    """PyTorch's masked_fill with a constant mask; the last shape has masks for a batch of 4."""
    chain = image()
    random = np.random.default_rng(len(shape))
    condition = chain.add("Cast", first=chain.constant(random.integers(0, 2, shape)), to=BOOL)
    names = [chain.nodes[-2].output[0], chain.constant(random.standard_normal((3, 1, 1)))]
    chain.add("Where", names[place], names[1 - place], first=condition)
    if shape[0] == 4:
        chain.inputs[0].type.tensor_type.shape.dim[0].dim_value = 4
        with pytest.raises(ModelError, match=r"differs among|cannot be broadcast"):
            ends(chain, 3 * 3 * 2, tmp_path)
        return
    ends(chain, 3 * 3 * 2, tmp_path)


@pytest.mark.parametrize(
    ("attributes", "count"), [({"lambd": 0.3}, 5), ({"lambd": 0.3, "bias": 0.3}, 2), ({"lambd": 0.2, "bias": 0.5}, 9)]
)
def test_shrinks(attributes: dict, count: int, tmp_path: Path) -> None:
    chain = image()
    chain.add("Shrink", **attributes)
    imported = ends(chain, 3 * 3 * 2, tmp_path)
    assert len(imported.network.layers) - 3 <= count


def test_x_above_a_limit_is_one_activation(tmp_path: Path) -> None:
    chain = image()
    x = chain.value
    chain.add("Greater", chain.constant(0.2))
    chain.add("Where", x, chain.constant(0.0), first=chain.value)
    imported = ends(chain, 3 * 3 * 2, tmp_path)
    threshold = next(layer for layer in imported.network.layers if isinstance(layer, (Activation, Conv2d)))
    assert (threshold.activation, threshold.activation_parameters) == ("threshold", (pytest.approx(0.2),))
    assert len(kinds(imported)) == 3


@pytest.mark.parametrize("alpha", [0.7, -0.2])
def test_thresholded_relu(alpha: float, tmp_path: Path) -> None:
    chain = image()
    chain.add("ThresholdedRelu", alpha=alpha)
    assert len(kinds(ends(chain, 3 * 3 * 2, tmp_path))) == 3


@pytest.mark.parametrize(
    ("add", "says"),
    [
        (lambda chain: chain.add("Greater", chain.constant(np.inf)), "comparing with NaN or infinity is not supported"),
        (lambda chain: chain.add("Shrink", lambd=-1.0), "lambd must be at least 0, got -1"),
        (lambda chain: chain.add("Floor"), "rounding data to integers"),
        (lambda chain: chain.add("Cast", to=TensorProto.INT64), "casting data to integers"),
        (
            lambda chain: chain.add("Where", chain.constant(0.0), chain.constant(0.0), first=chain.value),
            "selecting from constants that are all zero is not supported",
        ),
    ],
)
def test_refusals(add, says: str, tmp_path: Path) -> None:
    chain = image()
    add(chain)
    with pytest.raises(ModelError, match=says):
        import_network(chain.save(tmp_path))


def test_numbers_that_are_none_are_replaced(tmp_path: Path) -> None:
    """torch.export protects softmaxes of masked rows in this way; the inputs of the network contain no NaN."""
    chain = Chain(6)
    chain.gemm(6, 6)
    rows = chain.add("Softmax", axis=-1)
    chain.add("Where", chain.constant(0.0), rows, first=chain.add("IsNaN"))
    chain.gemm(6, 3)
    assert_imports(chain, tmp_path)


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("diagonal", [None, -1, 2])
def test_triangles_of_matrices(upper: int, diagonal: int | None, tmp_path: Path) -> None:
    chain = Chain(3, 4, 5)
    chain.add("Trilu", *([] if diagonal is None else [chain.constant(np.array(diagonal))]), upper=upper)
    checked(chain.model(), tmp_path)

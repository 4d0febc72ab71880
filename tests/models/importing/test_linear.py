"""Consecutive linear layers become one convolution and one affine layer, with the same answers as ONNX Runtime."""

from pathlib import Path

import numpy as np
import pytest
from onnx_chain import Chain, assert_imports, kinds
from trninfer.models.importing import ImportOptions
from trninfer.models.layers import Affine, Conv2d, Flatten

VALUES = ImportOptions(output_kind="values")


def decoded(kernel: int = 1, groups: int = 1) -> Chain:
    """Return boxes from distances to their sides, as YOLO decodes them: anchors, centres, sizes, strides."""
    chain = Chain(8, 5, 6)
    weight = chain.weight(4, 8 // groups, kernel, kernel)
    chain.add("Conv", weight, chain.weight(4), group=groups, pads=[kernel // 2] * 4)
    chain.add("Split", chain.constant([2, 2]), outputs=2, axis=1)
    low, high = chain.nodes[-1].output
    first = chain.add("Sub", low, first=chain.weight(1, 2, 5, 6))
    last = chain.add("Add", high, first=chain.weight(1, 2, 5, 6))
    centre = chain.add("Div", chain.constant(2.0), first=chain.add("Add", first))
    size = chain.add("Sub", first, first=last)
    chain.add("Concat", size, first=centre, axis=1)
    chain.add("Mul", chain.weight(1, 1, 5, 6))
    return chain


@pytest.mark.parametrize(
    ("kernel", "groups", "is_grouped"), [(1, 1, False), (1, 4, False), (3, 1, False), (3, 4, True)]
)
def test_boxes_are_decoded_by_two_layers(kernel: int, groups: int, is_grouped: bool, tmp_path: Path) -> None:
    imported = assert_imports(decoded(kernel, groups), tmp_path, options=VALUES)
    convolutions = [Conv2d, Conv2d] if is_grouped else [Conv2d]
    assert kinds(imported)[: len(convolutions) + 1] == [*convolutions, Affine]
    assert not any(layer.inputs == () for layer in imported.network.layers[1:])


def test_a_value_that_is_read_elsewhere_stays(tmp_path: Path) -> None:
    chain = decoded()
    boxes, centre = chain.value, next(node.output[0] for node in chain.nodes if node.op_type == "Div")
    chain.add("Sigmoid", first=centre)
    chain.add("Concat", boxes, axis=1)
    imported = assert_imports(chain, tmp_path, options=VALUES)
    assert kinds(imported).count(Affine) > 1


def random_chain(seed: int) -> Chain:
    """Draw slices, sums, differences, concatenations and affine maps of up to two values, some with additional
    readers."""
    random = np.random.default_rng(seed)
    high, wide, channels = random.integers((1, 1, 2), (7, 7, 9)).tolist()
    chain = Chain(channels, high, wide, seed=seed)
    shapes = {}
    for _ in range(int(random.integers(1, 3))):
        kernel = int(random.choice([1, 1, 3]))
        groups = channels if random.random() < 0.3 else 1
        weight = chain.weight(channels, channels // groups, kernel, kernel)
        shapes[chain.add("Conv", weight, chain.weight(channels), first="x", group=groups, pads=[kernel // 2] * 4)] = (
            channels
        )
        if random.random() < 0.3:
            shapes[chain.add("Relu")] = channels
    for _ in range(int(random.integers(3, 12))):
        names = list(shapes)
        name = names[int(random.integers(max(0, len(names) - 4), len(names)))]
        count = shapes[name]
        others = [other for other, size in shapes.items() if size == count]
        kind = str(
            random.choice(
                ["slice", "affine", "affine", "combine", "combine", "concat", "tanh"],
                p=[0.2, 0.2, 0.2, 0.15, 0.1, 0.1, 0.05],
            )
        )
        if kind == "slice" and count > 1:
            cut = int(random.integers(1, count))
            chain.add("Split", chain.constant([cut, count - cut]), outputs=2, first=name, axis=1)
            shapes.update(zip(chain.nodes[-1].output, (cut, count - cut)))
        elif kind == "affine":
            size = [(1, count, 1, 1), (1, count, high, wide), (1, 1, high, wide), (1, 1, 1, 1)][int(random.integers(4))]
            shapes[
                chain.add(str(random.choice(["Mul", "Add", "Sub", "Add"])), chain.weight(*size, scale=1.0), first=name)
            ] = count
        elif kind == "combine":
            shapes[chain.add(str(random.choice(["Add", "Sub"])), str(random.choice(others)), first=name)] = count
        elif kind == "concat":
            other = str(random.choice(names))
            if count + shapes[other] < 40:
                shapes[chain.add("Concat", other, first=name, axis=1)] = count + shapes[other]
        elif kind == "tanh":
            shapes[chain.add("Tanh", first=name)] = count
    last = chain.value
    chain.add("Mul", chain.weight(1, shapes[last], high, wide), first=last)
    if random.random() < 0.4:
        chain.add("Add", str(random.choice([n for n in shapes if shapes[n] == shapes[last]])))
    return chain


@pytest.mark.parametrize("seed", range(10))
def test_random_layers_are_answered_as_onnx_runtime_answers_them(seed: int, tmp_path: Path) -> None:
    assert_imports(random_chain(seed), tmp_path, options=VALUES)


@pytest.mark.slow
def test_more_random_layers_are_answered_as_onnx_runtime_answers_them(tmp_path: Path) -> None:
    for seed in range(10, 200):
        assert_imports(random_chain(seed), tmp_path, options=VALUES)


def test_sums_of_sums_are_merged_in_one_pass(tmp_path: Path) -> None:
    chain = Chain(3, 4, 3)
    chain.conv((3, 2), pads=[1] * 4)
    for _ in range(30):
        chain.add("Add", chain.value)
    chain.add("Mul", chain.weight(1, 2, 4, 3))
    imported = assert_imports(chain, tmp_path, options=VALUES)
    assert kinds(imported) == [Conv2d, Affine, Flatten]

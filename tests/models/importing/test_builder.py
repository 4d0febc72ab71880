"""Building a network: names, limits, materialised views, outputs and labels."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from import_steps import importer_of, numbers, value_of
from onnx_chain import Chain, assert_imports, checked, run_onnx
from trninfer.models import run_network
from trninfer.models.checks import MAX_LABELS
from trninfer.models.errors import ModelError
from trninfer.models.importing import import_network
from trninfer.models.importing.builder import MAX_ADDED, BuiltOutput, NetworkBuilder
from trninfer.models.importing.view import View
from trninfer.models.inputs import FeatureInput, ImageInput
from trninfer.models.layers import MAX_AXES, Activation, Affine, ChannelShuffle, Conv2d, Dense, Transpose
from trninfer.models.network import Network
from trninfer.models.outputs import Output

PROBABILITY = Output("sigmoid")


def test_names_count_up_for_each_stem() -> None:
    builder = NetworkBuilder(FeatureInput(3))
    assert [builder.name(stem) for stem in ("conv", "conv", "pool", "conv")] == ["conv1", "conv2", "pool1", "conv3"]


def test_tensors_are_float32_and_what_it_cannot_hold_is_infinite() -> None:
    builder = NetworkBuilder(FeatureInput(2))
    with np.errstate(all="raise"):
        builder.add(Affine("a", (2,), inputs=("input",)), {"scale": np.array([1.0, 1e300]), "shift": np.zeros(2)})
    assert builder.tensors["a.scale"].dtype == np.float32 and np.isinf(builder.tensors["a.scale"][1])


def test_layers_that_do_not_fit() -> None:
    builder = NetworkBuilder(ImageInput(1, 8192, 8192, "none", (0.0,), (1.0,)))
    with pytest.raises(ModelError, match=r"^outputs an image of 4x8192x8192, which is too large$"):
        builder.add(Conv2d("c", 1, 4, (1, 1), inputs=("input",)))
    builder = NetworkBuilder(FeatureInput(3))
    with pytest.raises(ModelError, match=r"^its weight has shape \[2, 3\]; expected \[3, 2\]$"):
        builder.add(Dense("d", 3, 2, inputs=("input",)), {"weight": np.ones((2, 3)), "bias": np.ones(2)})
    assert builder.layers == {} and builder.tensors == {}


def test_weights_and_layers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    builder = NetworkBuilder(FeatureInput(4))
    for number in range(MAX_ADDED):
        builder.add(Activation(f"a{number}", "relu", inputs=("input",)))
    with pytest.raises(ModelError, match=r"^the network has more than 4000 layers$"):
        builder.add(Activation("more", "relu", inputs=("input",)))
    builder = NetworkBuilder(FeatureInput(4))
    monkeypatch.setattr("trninfer.models.importing.builder.MAX_PARAMETERS", 12)
    builder.add(Dense("a", 4, 2, inputs=("input",)), {"weight": np.ones((4, 2)), "bias": np.ones(2)})
    with pytest.raises(ModelError, match=r"^the network has more than 12 weights$"):
        builder.add(Dense("b", 2, 1, inputs=("a",)), {"weight": np.ones((2, 1)), "bias": np.ones(1)})


@given(data=st.data(), shape=st.lists(st.integers(2, 4), min_size=2, max_size=5).map(tuple))
def test_views_are_made_real_in_any_order(data: st.DataObject, shape: tuple[int, ...]) -> None:
    """Up to five axes in memory, of which a layer moves at most MAX_AXES at once."""
    order = tuple(data.draw(st.permutations(range(len(shape)))))
    importer = importer_of(math.prod(shape))
    view = importer.views["x"].reshaped(shape, True).permuted(order)
    x = numbers(math.prod(shape))
    moved = x.reshape(2, *shape).transpose(0, *(axis + 1 for axis in order))
    np.testing.assert_array_equal(value_of(importer, view, x), moved)
    assert all(
        len(layer.split) <= MAX_AXES for layer in importer.builder.layers.values() if isinstance(layer, Transpose)
    )


def test_the_same_view_is_made_real_once() -> None:
    builder = NetworkBuilder(ImageInput(3, 4, 5, "none", (0.0,) * 3, (1.0,) * 3))
    turned = View.of("input", (3, 4, 5)).permuted((1, 0, 2))
    names = {builder.arrange(view, (60,)) for view in (turned, View(turned.layer, turned.axes, False))}
    assert len(names) == 1 and names != {builder.arrange(turned, (4, 3, 5))}
    assert builder.arrange(View.of("input", (3, 4, 5)), (3, 4, 5)) == "input"


def test_a_view_in_order_takes_another_shape_without_a_transpose() -> None:
    builder = NetworkBuilder(ImageInput(3, 4, 5, "none", (0.0,) * 3, (1.0,) * 3))
    view = View.of("input", (3, 4, 5))
    names = [builder.arrange(view, shape) for shape in ((60,), (12, 1, 5))]
    assert [builder.layers[name].kind for name in names] == ["flatten", "reshape"]
    assert [builder.shapes[name] for name in names] == [(60,), (12, 1, 5)]


def test_channels_that_are_shuffled_are_a_shuffle() -> None:
    builder = NetworkBuilder(ImageInput(6, 4, 5, "none", (0.0,) * 6, (1.0,) * 6))
    view = View.of("input", (6, 4, 5)).reshaped((2, 3, 4, 5), True).permuted((1, 0, 2, 3))
    assert builder.layers[builder.arrange(view, (6, 4, 5))] == ChannelShuffle("shuffle1", 2, inputs=("input",))
    square = View.of("input", (6, 4, 5)).reshaped((6, 20), True).permuted((1, 0))
    assert isinstance(builder.layers[builder.arrange(square, (6, 4, 5))], Transpose)


def finished(output: Output, shape: tuple[int, ...], labels: tuple[str, ...] | None = None, name: str = "y") -> Network:
    builder = NetworkBuilder(FeatureInput(math.prod(shape)))
    last = builder.add(Activation("a", "sigmoid", inputs=("input",)))
    return builder.finish("n", [BuiltOutput(name, last, shape, output)], labels)[0]


def test_labels_of_outputs_that_have_none() -> None:
    assert finished(Output("classes", "raw"), (3,)).labels == ("0", "1", "2")
    assert finished(PROBABILITY, (2,)).labels == ("0", "1")
    assert finished(PROBABILITY, (1,)).labels == () and finished(Output("values"), (3,)).labels == ()
    assert finished(Output("classes", "raw"), (3,), ("a", "b", "c")).labels == ("a", "b", "c")


def test_outputs_that_are_too_many() -> None:
    assert finished(Output("values"), (MAX_LABELS + 1,)).outputs == MAX_LABELS + 1
    with pytest.raises(ModelError, match=r"^the output 'y' has 65537 numbers; the limit is 65536$"):
        finished(Output("classes", "raw"), (MAX_LABELS + 1,))


def test_names_of_outputs_can_be_printed() -> None:
    builder = NetworkBuilder(FeatureInput(2))
    last = builder.add(Activation("a", "tanh", inputs=("input",)))
    outputs = [BuiltOutput(name, last, (2,), Output("values")) for name in ("a\x1bb ", "\n", "x" * 300)]
    network, _ = builder.finish("n", outputs, None)
    assert [named.name for named in network.named_outputs] == ["a?b", "?", "x" * 200]


def test_a_single_chance_with_two_labels(tmp_path: Path) -> None:
    chain = Chain(4)
    chain.gemm(4, 1)
    chain.add("Sigmoid")
    path = chain.save(tmp_path)
    assert import_network(path).network.output == Output("sigmoid")
    named = import_network(path, labels=("healthy",)).network
    assert named.output == Output("sigmoid") and named.labels == ("healthy",)
    imported = import_network(path, labels=("ill", "healthy"))
    network = imported.network
    assert network.output == Output("classes", "softmax") and network.outputs == 2
    x = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
    chance = run_onnx(path, x)
    given = run_network(network, imported.tensors, x).probabilities
    np.testing.assert_allclose(given, np.concatenate([1 - chance, chance], axis=1), atol=1e-6)
    with pytest.raises(ModelError, match="3 labels"):
        import_network(path, labels=("a", "b", "c"))


def test_more_axes_than_a_dma_takes_move_in_several_steps(tmp_path: Path) -> None:
    chain = Chain(8, 4, 8)
    chain.add("DepthToSpace", blocksize=2, mode="CRD")
    chain.add("SpaceToDepth", blocksize=4)
    chain.add("Flatten")
    network = assert_imports(chain, tmp_path).network
    splits = [len(layer.split) for layer in network.layers if isinstance(layer, Transpose)]
    assert len(splits) > 1 and max(splits) <= MAX_AXES


def test_values_of_several_axes_keep_their_shape(tmp_path: Path) -> None:
    chain = Chain(3, 6, 5)
    chain.conv((3, 3), pads=[1] * 4)
    assert checked(chain.model(), tmp_path).network.named_outputs[0].shape == (3, 6, 5)

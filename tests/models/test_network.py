"""Networks are validated at construction, and preserved by a round trip through JSON."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trninfer.models.boxes import BoxHead
from trninfer.models.errors import ModelError
from trninfer.models.inputs import FeatureInput, ImageInput
from trninfer.models.layers import Combine, Concat, Conv2d, Dense, Flatten, Pool, Softmax
from trninfer.models.network import Network
from trninfer.models.outputs import NamedOutput, Output

IMAGE = ImageInput(1, 32, 32, "digit", (0.0,), (1.0,))
LABELS = ("no", "yes")


def small_network() -> Network:
    return Network(
        "small",
        IMAGE,
        (
            Conv2d("conv", 1, 4, (3, 3), padding=(1, 1, 1, 1), pool_size=2, activation="gelu"),
            Flatten("flatten"),
            Dense("dense", 4 * 16 * 16, 2),
            Softmax("softmax"),
        ),
        LABELS,
    )


def test_shapes_follow_the_layers() -> None:
    network = small_network()
    assert network.shapes() == {
        "input": (1, 32, 32),
        "conv": (4, 16, 16),
        "flatten": (1024,),
        "dense": (2,),
        "softmax": (2,),
    }
    assert network.tensor_shapes() == {
        "conv.weight": (4, 1, 3, 3),
        "conv.bias": (4,),
        "dense.weight": (1024, 2),
        "dense.bias": (2,),
    }


@pytest.mark.parametrize(
    ("layers", "says"),
    [
        ((Conv2d("c", 3, 4, (3, 3)), Flatten("f"), Dense("d", 4, 2)), "layer 'c': expects an image of 3 channels"),
        ((Dense("d", 1024, 2),), "layer 'd': expects 1024 features.*put a flatten before it"),
        ((Flatten("f"), Dense("d", 1000, 2)), "layer 'd': expects 1000 features, but its input is 1024"),
        ((Flatten("f"), Dense("f", 1024, 2)), "layer 'f': this name is used twice"),
        ((Flatten("f"), Softmax("s"), Dense("d", 1024, 2)), "layer 's': a softmax must be the last"),
        ((Flatten("f"), Dense("d", 1024, 3)), "outputs 3 features, but has 2 labels"),
        ((Conv2d("c", 1, 2, (40, 40)),), "layer 'c': a 40x40 kernel.* is too large for an input of"),
        ((Softmax("s"),), "layer 's': expects features"),
        ((), "has 0 layers"),
    ],
)
def test_invalid_layer_is_named(layers: tuple, says: str) -> None:
    with pytest.raises(ModelError, match=says) as error:
        Network("n", IMAGE, layers, LABELS)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: Conv2d("c", 0, 4, (3, 3)), "in_channels is 0; 1 to"),
        (lambda: Conv2d("c", 1, 4, (3, 3), (0, -1, 0, 0)), "padding is 0, -1"),
        (lambda: Conv2d("c", 1, 4, (3, 3), pool_size=3), "pool_size is 3; 1 to 2"),
        (lambda: Dense("d", 4, 4, "softmax"), "activation is 'softmax'; allowed: identity, relu"),
        (lambda: Dense("", 4, 4), "layer name ''"),
        (lambda: Flatten("input"), "layer name 'input'"),
        (lambda: Dense("a\nb", 4, 4), "layer name"),
    ],
)
def test_fields_are_checked(build, says: str) -> None:
    with pytest.raises(ModelError, match=says):
        build()


def test_an_output_beyond_memory_is_refused() -> None:
    huge = ImageInput(1, 16_384, 16_384, "digit", (0.0,), (1.0,))
    with pytest.raises(ModelError, match=r"layer 'c': its output .* is too large"):
        Network("n", huge, (Conv2d("c", 1, 64, (1, 1)),), LABELS)


def test_json_round_trip() -> None:
    network = small_network()
    assert Network.from_json(network.to_json()) == network


@given(
    widths=st.lists(st.integers(1, 300), min_size=1, max_size=6),
    activation=st.sampled_from(["identity", "relu", "gelu", "sigmoid", "tanh"]),
    features=st.integers(1, 300),
    ends_in_softmax=st.booleans(),
)
def test_json_round_trip_of_any_perceptron(widths, activation, features, ends_in_softmax) -> None:
    sizes = [features, *widths]
    layers: list = [Dense(f"layer {n}", a, b, activation) for n, (a, b) in enumerate(itertools.pairwise(sizes))]
    if ends_in_softmax:
        layers.append(Softmax("softmax"))
    network = Network("any \u00e9", FeatureInput(features), tuple(layers), tuple(map(str, range(widths[-1]))))
    assert Network.from_json(network.to_json()) == network


def changed(change) -> str:
    data = json.loads(small_network().to_json())
    change(data)
    return json.dumps(data)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("[]", "must be a JSON object, not list"),
        ("{}", "the field 'name' is missing"),
        (changed(lambda d: d.update(extra=1)), "unknown field 'extra'"),
        (changed(lambda d: d["layers"][0].update(strides=2)), "layer number 1: unknown field 'strides'"),
        (changed(lambda d: d["layers"][0].pop("kernel_size")), "layer number 1: the field 'kernel_size' is missing"),
        (changed(lambda d: d["layers"][0].update(kind="conv3d")), "unknown kind 'conv3d'; known: activation, prelu"),
        (changed(lambda d: d["layers"].append(7)), "layer number 5: unknown kind None"),
        (changed(lambda d: d["layers"][2].update(in_features=True)), "in_features must be a whole number, not true"),
        (changed(lambda d: d["layers"][2].update(in_features=1024.0)), "in_features must be a whole number"),
        (changed(lambda d: d["layers"][2].update(name=3)), "name must be a string, not 3"),
        (changed(lambda d: d["input"].update(mean="0")), "mean must be a list of numbers"),
        (changed(lambda d: d["input"].update(mean=[10**400])), "mean must be a list of numbers"),
        (changed(lambda d: d["input"].update(std=[float("nan")])), "std is .* finite"),
        (changed(lambda d: d.update(labels="ab")), "labels must be a list of strings"),
        (changed(lambda d: d.update(labels=["a", 1])), "labels must be a list of strings"),
        (changed(lambda d: d.update(layers={})), "layers must be a list"),
        (changed(lambda d: d.update(name=None)), "name must be a string"),
    ],
)
def test_json_that_is_not_ours_is_refused_in_one_line(text: str, says: str) -> None:
    with pytest.raises(ModelError, match=says) as error:
        Network.from_json(text)
    assert "\n" not in str(error.value)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(["name", "input", "layers", "labels", "kind", "features"]), inner, max_size=5
            )
        ),
        max_leaves=20,
    )
)
def test_any_json_gives_a_network_or_a_model_error(data) -> None:
    with pytest.raises(ModelError):
        Network.from_json(json.dumps(data))


def residual_network() -> Network:
    return Network(
        "residual",
        ImageInput(3, 9, 7, "photo", (0.5,) * 3, (-0.5,) * 3, 9, "HWC", "bgr"),
        (
            Conv2d("a", 3, 8, (3, 1), (1, 0, 1, 0), stride=(2, 1), activation="clip", activation_parameters=(0.0, 6.0)),
            Conv2d("b", 8, 8, (3, 3), (1, 1, 1, 1), groups=8),
            Combine("sum", "add", "relu", inputs=("a", "b")),
            Pool("pooled", "average", (5, 7), (5, 7)),
            Combine("excite", "multiply", inputs=("sum", "pooled")),
            Concat("both", inputs=("excite", "a")),
            Pool("last", "max", (3, 3), (2, 2), (1, 1, 1, 1), ceil_mode=True),
            Flatten("flatten"),
        ),
        (),
        Output("values"),
    )


def test_layers_read_any_layers_before_them() -> None:
    network = residual_network()
    assert network.shapes()["both"] == (16, 5, 7) and network.outputs == 16 * 3 * 4
    assert [layer.inputs for layer in network.layers[:3]] == [("input",), ("a",), ("a", "b")]
    assert Network.from_json(network.to_json()) == network


@pytest.mark.parametrize(
    ("layers", "says"),
    [
        (
            (Flatten("a"), Combine("b", "add", inputs=("a", "c")), Flatten("c")),
            "layer 'b': reads 'c', which is not an earlier layer",
        ),
        ((Flatten("a", inputs=("a",)),), "layer 'a': reads 'a', which is not an earlier layer"),
        ((Flatten("a"), Combine("b", "add")), "layer 'b': reads 1 layers; expected 2"),
        ((Flatten("a"), Flatten("b", inputs=("input",))), "layer 'a': no layer reads its output"),
        (
            (Flatten("a"), Combine("b", "add", inputs=("a", "input"))),
            "layer 'b': cannot apply add to 1024 features and an image",
        ),
    ],
)
def test_graphs_that_do_not_fit_are_named(layers, says: str) -> None:
    with pytest.raises(ModelError, match=says) as error:
        Network("n", IMAGE, layers, LABELS)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("schema", [0, 5, True, "2", None])
def test_other_schemas_are_refused(schema) -> None:
    with pytest.raises(ModelError, match="this release reads 1 to 4"):
        Network.from_json(changed(lambda d: d.update(schema=schema)))


def test_work_and_labels_are_bounded() -> None:
    image = ImageInput(4, 4096, 4096, "none", (0.0,) * 4, (1.0,) * 4)
    convolutions = tuple(Conv2d(f"c{n}", 4, 4, (63, 63), (31,) * 4) for n in range(3))
    with pytest.raises(ModelError, match=r"layer 'c2': one example requires more than the maximum of 2.2e\+12"):
        Network("n", image, (*convolutions, Pool("p", "max", (4096, 4096), (1, 1)), Flatten("f")), tuple("abcd"))
    with pytest.raises(ModelError, match="100000 labels; at most 65536"):
        Network("n", FeatureInput(3), (Dense("d", 3, 100_000),), ("x",) * 100_000)


def test_the_label_for_none_of_the_classes_is_one_of_them() -> None:
    layers = (Dense("output", 2, 3),)
    network = Network("n", FeatureInput(2), layers, ("a", "b", "-"), Output("classes", "raw", none="-"))
    assert Network.from_json(network.to_json()) == network
    for labels, output in (
        (("a", "b", "c"), Output("classes", "raw", none="-")),
        (("-", "b", "-"), Output("classes", "raw", none="-")),
        (("a", "b", "-"), Output("values", none="-")),
    ):
        with pytest.raises(
            ModelError, match=r"output 'output': none is '-', which must be the label of exactly one class"
        ):
            Network("n", FeatureInput(2), layers, labels, output)


def two_outputs(**changes) -> Network:
    """Return a policy over four moves and a value on a shared trunk."""
    layers = (
        Conv2d("trunk", 1, 2, (3, 3), (1, 1, 1, 1), activation="relu"),
        Flatten("flat"),
        Dense("value", 2048, 1, "tanh"),
        Dense("policy", 2048, 4, inputs=("flat",)),
        Softmax("chances"),
    )
    others = (NamedOutput("value", "value", (1,), Output("values")),)
    fields = {"others": others, "output_name": "policy", "output_shape": (2, 2), **changes}
    return Network("two", IMAGE, layers, tuple("abcd"), **fields)


def test_several_outputs() -> None:
    network = two_outputs()
    assert [named.name for named in network.named_outputs] == ["policy", "value"]
    assert network.outputs == 4 and network.row_size == 5
    rows = np.arange(10, dtype=np.float32).reshape(2, 5)
    policy, value = network.unpack(rows)
    assert policy.tolist() == [[0, 1, 2, 3], [5, 6, 7, 8]] and value.tolist() == [[4], [9]]
    assert json.loads(network.to_json())["schema"] == 3
    assert Network.from_json(network.to_json()) == network


def test_a_network_of_one_output_is_written_as_before() -> None:
    data = json.loads(residual_network().to_json())
    assert data["schema"] == 2 and list(data) == ["schema", "name", "input", "layers", "labels", "output"]


def test_a_softmax_may_end_any_output_but_be_read_by_no_layer() -> None:
    layers = (Softmax("s"), Dense("d", 2, 2, inputs=("input",)))
    other = NamedOutput("chances", "s", (2,), Output("classes", "softmax"), ("a", "b"))
    assert Network("n", FeatureInput(2), layers, ("c", "d"), others=(other,)).row_size == 4
    read = (Softmax("s"), Dense("d", 2, 2))
    with pytest.raises(ModelError, match="a softmax must be the last"):
        Network("n", FeatureInput(2), read, ("c", "d"), others=(other,))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"others": ()}, "layer 'value': no layer reads its output"),
        (
            {"others": (NamedOutput("v", "nowhere", (1,), Output("values")),)},
            "layer 'value': no layer reads its output",
        ),
        ({"output_name": "value"}, "with different names"),
        ({"output_shape": (3,)}, r"output 'policy': its shape is \[3\], but layer 'chances' outputs 4"),
        ({"others": (NamedOutput("value", "value", (1,), Output("classes", "raw")),)}, "1 numbers, but 0 labels"),
    ],
)
def test_outputs_that_do_not_fit_are_named(changes, says: str) -> None:
    with pytest.raises(ModelError, match=says):
        two_outputs(**changes)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d.update(others=1), "others must be a list"),
        (lambda d: d["others"][0].pop("shape"), "output number 1: the field 'shape' is missing"),
        (lambda d: d["others"][0].update(layer="trunk"), "layer 'value': no layer reads its output"),
        (lambda d: d["others"][0]["output"].update(kind="box"), "kind is 'box'"),
        (lambda d: d.update(output_shape="4"), "output_shape must be a list of numbers"),
    ],
)
def test_outputs_in_json_are_checked(change, says: str) -> None:
    data = json.loads(two_outputs().to_json())
    change(data)
    with pytest.raises(ModelError, match=says):
        Network.from_json(json.dumps(data))


def test_names_of_layers_can_be_imported_from_the_module_of_networks() -> None:
    from trninfer.models.network import Conv2d as Old  # their former location, which scripts still import from

    assert Old is Conv2d
    with pytest.raises(ImportError):
        from trninfer.models.network import Nothing  # noqa: F401


def detector(head: BoxHead, shape: tuple[int, ...], labels: tuple[str, ...], **maps: tuple[int, ...]) -> Network:
    """Return a network with one output of boxes and other outputs of values."""
    image = ImageInput(1, 8, 8, "none", (0.0,), (1.0,))
    layers = [Flatten("flat", inputs=("input",))]
    others = []
    for name, other in maps.items():
        layers.append(Dense(name, 64, math.prod(other), inputs=("flat",)))
        others.append(NamedOutput(name, name, other, Output("values")))
    layers.append(Dense("last", 64, math.prod(shape), inputs=("flat",)))
    output = Output("boxes", boxes=head)
    return Network("detector", image, tuple(layers), labels, output, tuple(others), "rows", shape)


def test_boxes_are_written_and_read() -> None:
    head = BoxHead(2, masks=3, prototypes="maps")
    network = detector(head, (9, 5), ("a", "b"), maps=(3, 2, 2))
    assert json.loads(network.to_json())["schema"] == 4
    assert Network.from_json(network.to_json()) == network
    assert (network.answer_labels, network.row_size) == ((), 57)


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: detector(BoxHead(2), (6, 5), ("a",)), "2 classes of boxes, but 1 labels"),
        (lambda: detector(BoxHead(2), (5, 6), ("a", "b")), r"\[numbers, boxes\] with 6 numbers"),
        (lambda: detector(BoxHead(2, masks=3, prototypes="maps"), (9, 5), ("a", "b")), "the output 'maps'"),
        (
            lambda: detector(BoxHead(2, "rows", scores_from="scores"), (5, 4), ("a", "b"), scores=(5, 3)),
            r"the output 'scores' of shape \[5, 3\] does not match",
        ),
        (
            lambda: detector(BoxHead(1, "rows", "cells", strides=(4,)), (5, 5), ("a",)),
            r"the number of boxes, 5, does not match the strides for \(1, 8, 8\)",
        ),
    ],
)
def test_boxes_that_do_not_fit_are_named(build, says: str) -> None:
    with pytest.raises(ModelError, match=says):
        build()


@pytest.mark.parametrize("change", [{"layout": 3}, {"colour": "red"}, None, []])
def test_boxes_in_json_are_checked(change) -> None:
    data = json.loads(detector(BoxHead(2), (6, 5), ("a", "b")).to_json())
    data["output"]["boxes"] = {**data["output"]["boxes"], **change} if isinstance(change, dict) else change
    with pytest.raises(ModelError, match="box"):
        Network.from_json(json.dumps(data))

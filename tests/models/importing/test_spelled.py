"""State dicts whose layers the user specifies: `--layers`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import save_file
from trninfer.models import Conv2d, Dense, Flatten, ModelError, Softmax, run_network
from trninfer.models.importing import ImportOptions, import_network
from trninfer.models.importing.spelled import NORM_PARTS
from trninfer.models.outputs import Output

Tensors = dict[str, np.ndarray]


def save(tensors: Tensors, folder: Path) -> Path:
    path = folder / "state.safetensors"
    save_file(tensors, path)
    return path


CONVOLUTIONS = {
    "conv1.weight": (4, 1, 5, 5),
    "conv1.bias": (4,),
    "bn1.weight": (4,),
    "bn1.bias": (4,),
    "bn1.running_mean": (4,),
    "bn1.running_var": (4,),
    "conv2.weight": (6, 2, 3, 3),
    "fc1.weight": (10, 6 * 3 * 3),
    "fc1.bias": (10,),
}


STEPS = "conv1, bn1, relu, maxpool:2, conv2:padding=1:stride=2:groups=2, leaky_relu:0.2, flatten, fc1, logsoftmax"


def spelled_tensors() -> Tensors:
    random = np.random.default_rng(3)
    return {name: random.uniform(0.1, 1, shape).astype(np.float32) for name, shape in CONVOLUTIONS.items()}


def test_a_sequence_that_the_user_spells(tmp_path: Path) -> None:
    tensors = spelled_tensors()
    imported = import_network(save(tensors, tmp_path), options=ImportOptions(layers=STEPS))
    network = imported.network
    assert network.input.shape == (1, 14, 14)  # the smallest side that leaves 3x3 pixels
    assert [type(layer) for layer in network.layers] == [Conv2d, Conv2d, Flatten, Dense, Softmax]
    assert network.output == Output("classes", "log_softmax")
    x = np.random.default_rng(5).standard_normal((2, 1, 14, 14), np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "conv1.weight", "conv1.bias"], ["a"]),
        helper.make_node("BatchNormalization", ["a", *(f"bn1.{part}" for part in NORM_PARTS)], ["b"]),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("MaxPool", ["c"], ["d"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["d", "conv2.weight"], ["e"], pads=[1] * 4, strides=[2, 2], group=2),
        helper.make_node("LeakyRelu", ["e"], ["f"], alpha=0.2),
        helper.make_node("Flatten", ["f"], ["g"]),
        helper.make_node("Gemm", ["g", "fc1.weight", "fc1.bias"], ["h"], transB=1),
        helper.make_node("Softmax", ["h"], ["y"]),
    ]
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)]
    made = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    weights = [numpy_helper.from_array(value, name) for name, value in tensors.items()]
    graph = helper.make_graph(nodes, "spelled", given, made, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})[0]
    run = run_network(network, imported.tensors, x)
    np.testing.assert_allclose(run.probabilities, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        ("", "has 0 steps; 1 to 1000"),
        ("conv1, bn1, fc1", "does not use the module 'conv2'"),
        ("relu", "does not use the module 'bn1'"),
        (STEPS.replace("relu, maxpool", "rely, maxpool"), r"step 3 \(rely\): neither a module"),
        (STEPS.replace("maxpool:2", "maxpool:x"), "'x' is not a number"),
        (STEPS.replace("maxpool:2", "maxpool:-2"), "window and stride must be at least 1|cannot be inferred"),
        (STEPS.replace("padding", "pad"), "'pad' is unknown; known keys are padding, stride, groups"),
        (STEPS.replace("conv1, bn1", "bn1, conv1"), "neither a convolution nor a dense layer"),
        (STEPS.replace("groups=2", "groups=3"), "expects an image of 6 channels"),
        (
            STEPS.replace("maxpool:2, ", "globalpool, "),
            "cannot be inferred from the layers; set it with --input-size HxW",
        ),
    ],
)
def test_steps_that_do_not_fit_are_named(steps: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=says) as error:
        import_network(save(spelled_tensors(), tmp_path), options=ImportOptions(layers=steps))
    assert "\n" not in str(error.value)


def test_a_convolutional_state_dict_is_reported_two_ways_out(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"--layers describes any other .*torch\.onnx\.export\(model, example_input"):
        import_network(save(spelled_tensors(), tmp_path))

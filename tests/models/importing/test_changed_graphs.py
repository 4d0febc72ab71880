"""Graphs in common styles with random changes are rejected with one line, or correct in batches.

`python tests/models/importing/test_changed_graphs.py SECONDS [SEED]` runs for that many seconds and prints counts.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_chain import Chain
from trninfer.models.errors import TrninferError
from trninfer.models.files import Model
from trninfer.models.golden import run_network
from trninfer.models.importing import import_network
from trninfer.runtime.backend import KernelError
from trninfer.runtime.choose import choose_backend
from trninfer.runtime.network_check import before_softmax
from trninfer.runtime.session import OverflowedError, Session

LONGEST = 60  # maximum seconds per file


def detector() -> onnx.ModelProto:
    chain = Chain(3, 9, 9)
    chain.conv((3, 6))
    trunk = chain.add("Relu")
    chain.conv((6, 8), (1, 1))
    chain.add("Transpose", perm=[0, 2, 3, 1])
    boxes = chain.add("Reshape", chain.constant([-1, 98, 4]))
    chain.value = trunk
    chain.conv((6, 4), (1, 1))
    chain.add("Transpose", perm=[0, 2, 3, 1])
    chain.add("Reshape", chain.constant([-1, 98, 2]))
    return chain.model(outputs=[boxes, chain.add("Softmax", axis=-1)])


def siamese() -> onnx.ModelProto:
    chain = Chain(2, 7, 7)
    other = chain.input("other", "batch", 2, 7, 7)
    filters = chain.weight(4, 2, 3, 3)
    left = chain.add("Conv", filters)
    right = chain.add("Conv", filters, first=other)
    chain.add("Abs", first=chain.add("Sub", right, first=left))
    chain.add("GlobalMaxPool")
    chain.add("Flatten")
    chain.gemm(4, 3)
    return chain.model()


def choices() -> onnx.ModelProto:
    chain = Chain(3, 6, 6)
    chain.conv((3, 4))
    value = chain.value
    above = chain.add("Greater", chain.constant(0.2))
    chain.add("Where", value, chain.add("Sin", first=value), first=above)
    chain.add("Shrink", bias=0.1, lambd=0.1)
    chain.add("Erf")
    chain.add("LpPool", kernel_shape=[2, 2], strides=[2, 2], p=2)
    chain.add("Flatten")
    chain.gemm(16, 3)
    chain.add("Softmax", axis=1)
    return chain.model(18)


def bytes_in() -> onnx.ModelProto:
    chain = Chain(6, 6, 3)
    chain.inputs[0] = helper.make_tensor_value_info("x", TensorProto.UINT8, ["batch", 6, 6, 3])
    scale = chain.constant(0.02)
    chain.weights.append(numpy_helper.from_array(np.uint8(120), "zero"))
    chain.add("DequantizeLinear", scale, "zero")
    chain.add("Transpose", perm=[0, 3, 1, 2])
    chain.conv((3, 4), auto_pad="SAME_UPPER", strides=[2, 2])
    chain.add("Clip", chain.constant(0.0), chain.constant(6.0))
    chain.add("ReduceMean", chain.constant([2, 3]), keepdims=0)
    chain.gemm(4, 3)
    chain.add("QuantizeLinear", chain.constant(0.05), "zero")
    return chain.model(dtype=TensorProto.UINT8)


def symbols() -> onnx.ModelProto:
    chain = Chain("channels", 8, 8)
    chain.conv((3, 4), strides=[2, 2])
    chain.add("Resize", "", chain.constant([1.0, 1.0, 2.0, 2.0]), mode="nearest")
    chain.add("Pad", chain.constant([0, 0, 1, 1, 0, 0, 1, 1]))
    chain.add("Tile", chain.constant([1, 2, 1, 1]))
    chain.conv((8, 3), (1, 1))
    chain.nodes.reverse()
    return chain.model(18)


STYLES: tuple[Callable[[], onnx.ModelProto], ...] = (detector, siamese, choices, bytes_in, symbols)
VALUES = (0, -1, 1, 2, 3, 1.5, "text", [1], [0, 0], [2, 2], [1, 2, 3, 4], [0, 3, 1, 2], [1 << 40] * 4)
NAMES = ("pads", "strides", "kernel_shape", "axis", "perm", "transB", "group", "p", "keepdims", "mode", "auto_pad")
OPS = ("Add", "Sub", "Mul", "Where", "Greater", "Concat", "Gather", "Sign", "Cos", "MaxPool", "GlobalAveragePool")


def change(model: onnx.ModelProto, draw: random.Random) -> None:
    """Make one change to a graph: an operator, an input, an attribute, a shape or a type."""
    nodes, weights = model.graph.node, model.graph.initializer
    node, weight = draw.choice(nodes), draw.choice(weights)
    what = draw.choice(("op", "input", "fewer", "attribute", "attribute", "dims", "type", "shape", "output", "gone"))
    if what == "op":
        node.op_type = draw.choice((*OPS, *(other.op_type for other in nodes)))
    elif what == "input" and node.input:
        names = [name for other in nodes for name in (*other.input, *other.output)]
        node.input[draw.randrange(len(node.input))] = draw.choice([*names, ""])
    elif what == "fewer" and node.input:
        del node.input[draw.randrange(len(node.input)) :]
    elif what == "attribute":
        name = draw.choice((*(entry.name for entry in node.attribute), *NAMES))
        kept = [entry for entry in node.attribute if entry.name != name]
        del node.attribute[:]
        node.attribute.extend([*kept, helper.make_attribute(name, draw.choice(VALUES))])
    elif what == "dims":
        dims = list(weight.dims)
        draw.shuffle(dims)
        weight.dims[:] = [*dims, *draw.choice(([], [1]))]
    elif what == "type":
        weight.data_type = draw.randrange(24)
    elif what == "shape":
        given = draw.choice(model.graph.input).type.tensor_type
        size = draw.choice(given.shape.dim)
        size.dim_value = draw.choice((0, 1, 2, 3, 9, 1 << 33))
        given.elem_type = draw.choice((given.elem_type, *range(1, 17)))
    elif what == "output":
        model.graph.output.add().CopyFrom(helper.make_tensor_value_info(node.output[0], TensorProto.FLOAT, None))
    elif what == "gone" and len(nodes) > 1:
        nodes.remove(node)


def try_out(number: int, folder: Path) -> str:
    """Return the outcome of changed graph `number`: "refused", "differs from ONNX Runtime", or "right"; other
    exceptions are raised."""
    draw = random.Random(number)
    model = STYLES[number % len(STYLES)]()
    for _ in range(draw.randint(1, 3)):
        change(model, draw)
    path = folder / "m.onnx"
    path.write_bytes(model.SerializeToString())
    try:
        imported = import_network(path)
    except TrninferError as error:
        assert "\n" not in str(error)
        return "refused"
    if not imported.comparison.passed:
        return "differs from ONNX Runtime"
    made = before_softmax(Model(imported.network, imported.tensors, {}))
    for batch in (1, 3):
        x = np.random.default_rng(batch).standard_normal((batch, *made.network.input.shape), np.float32)
        try:
            found = Session(made, choose_backend("sim", "trn2"), "float32", batch).run(x).probabilities
        except (KernelError, OverflowedError) as error:
            assert "\n" not in str(error)
            return "cannot run"
        outputs = run_network(made.network, made.tensors, x).outputs
        expected = np.concatenate([output.probabilities for output in outputs], axis=1)
        np.testing.assert_allclose(found, expected, rtol=0, atol=2e-3 * max(1.0, float(np.abs(expected).max())))
    return "right"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow
def test_anything_anywhere_is_refused_in_one_line_or_right(tmp_path: Path) -> None:
    found = Counter(try_out(number, tmp_path) for number in range(60))
    assert found["refused"] and found["right"]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    end, number, counts = time.time() + float(sys.argv[1]), int((sys.argv[2:] or ["1000"])[0]), Counter[str]()
    with tempfile.TemporaryDirectory() as room:
        while time.time() < end:
            started = time.time()
            try:
                outcome = try_out(number, Path(room))
            except Exception as error:  # a bug
                outcome = "FAULT"
                print(f"{number}: {type(error).__name__}: {' '.join(str(error).split())[:300]}", flush=True)
            if time.time() - started > LONGEST:
                print(f"{number}: {time.time() - started:.0f} s", flush=True)
            counts[outcome] += 1
            number += 1
    print(f"{sum(counts.values())} graphs: {dict(counts)}")

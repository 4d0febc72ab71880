"""Values concatenated along the pixels, as in heads of detectors: they are copied once, and match ONNX Runtime."""

from pathlib import Path

import numpy as np
import pytest
from lowered import graph_of
from onnx_chain import Chain, run_onnx
from trninfer.kernels.program import Beside, Combine, Pad, Rearrange
from trninfer.lowering.graph.graph import Graph
from trninfer.models.files import Model
from trninfer.models.importing import ImportOptions, import_network
from trninfer.runtime.session import Session
from trninfer.runtime.simulated import SimulatedBackend
from trninfer.runtime.tolerances import network_tolerance

BATCHES = (1, 2, 3, 4, 7, 16)


def imported(chain: Chain, folder: Path) -> Model:
    found = import_network(chain.save(folder), options=ImportOptions(output_kind="values"))
    return Model(found.network, found.tensors, {})


def beside(chain: Chain, channels: int, outputs: int, strides: list[int], activation: str = "") -> int:
    """Return strided convolutions whose pixels are concatenated, and the number of columns."""
    names, columns = [], 0
    side = [size.dim_value for size in chain.inputs[0].type.tensor_type.shape.dim][2:]
    for stride in strides:
        chain.add("Conv", chain.weight(outputs, channels, 1, 1), chain.weight(outputs), first="x", strides=[stride] * 2)
        count = int(np.prod([-(-size // stride) for size in side]))
        names.append(chain.add("Reshape", chain.constant([0, outputs, count])))
        columns += count
    chain.add("Concat", *names[1:], first=names[0], axis=2)
    if activation:
        chain.add(activation)
    return columns


def head(seed: int) -> Chain:
    """Return heads of a detector: boxes scaled by anchors and strides, and scores, concatenated."""
    random = np.random.default_rng(seed)
    channels, high, wide = random.integers((1, 2, 2), (9, 11, 11)).tolist()
    chain = Chain(channels, high, wide, seed=seed)
    strides = random.choice([1, 1, 2, 3, 4], int(random.integers(2, 4))).tolist()
    columns = beside(chain, channels, 4, strides, str(random.choice(["", "Sigmoid", "Tanh"])))
    if random.random() < 0.7:
        chain.add("Split", chain.constant([2, 2]), outputs=2, axis=1)
        low, high_corner = chain.nodes[-1].output
        first = chain.add("Sub", low, first=chain.weight(1, 2, columns))
        last = chain.add("Add", high_corner, first=chain.weight(1, 2, columns))
        chain.add("Concat", chain.add("Sub", first, first=last), first=chain.add("Add", last, first=first), axis=1)
    chain.add("Mul", chain.weight(1, 1 if random.random() < 0.5 else 4, columns))
    boxes = chain.value
    beside(chain, channels, int(random.choice([1, 3, 80, 130])), strides, str(random.choice(["", "Sigmoid", "Relu"])))
    chain.add("Concat", chain.value, first=boxes, axis=1)
    return chain


def assert_as_onnx_runtime(seed: int, folder: Path, dtype: str, target: str, lnc: int, batch: int) -> Graph:
    """Compare the graph of a head with ONNX Runtime."""
    chain = head(seed)
    model = imported(chain, folder)
    x = np.random.default_rng(seed).standard_normal((batch, *model.network.input.shape)).astype(np.float32)
    expected = run_onnx(folder / "chain.onnx", x).reshape(batch, -1)
    found = Session(model, SimulatedBackend(target, lnc=lnc), dtype, batch).run(x).probabilities
    share = 1e-4 if dtype == "float32" else network_tolerance(dtype)
    assert np.abs(found - expected).max() <= share * max(1.0, np.abs(expected).max())
    return graph_of(model)


@pytest.mark.parametrize(("seed", "batch"), list(enumerate(BATCHES)))
def test_heads_are_answered_as_onnx_runtime_answers_them(seed: int, batch: int, tmp_path: Path) -> None:
    graph = assert_as_onnx_runtime(seed, tmp_path, "float32", "trn2", 1 + seed % 2, batch)
    assert any(isinstance(node.operation, Beside) for node in graph.nodes)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6, 36))
def test_more_heads_are_answered_as_onnx_runtime_answers_them(seed: int, tmp_path: Path) -> None:
    dtype = ("float32", "bfloat16", "float8_e4m3")[seed % 3]
    assert_as_onnx_runtime(seed, tmp_path, dtype, f"trn{1 + seed // 2 % 3}", 1, BATCHES[seed % 6])


@pytest.mark.parametrize("activation", ["", "Sigmoid", "Tanh"])
def test_pixels_are_copied_once(activation: str, tmp_path: Path) -> None:
    chain = Chain(3, 8, 6)
    beside(chain, 3, 5, [1, 2, 4], activation)
    operations = [node.operation for node in graph_of(imported(chain, tmp_path)).nodes]
    assert [operation.starts for operation in operations if isinstance(operation, Beside)] == (
        [(0, 48, 60)] if activation != "Tanh" else [(0, 48)]
    )
    assert any(isinstance(operation, (Pad, Combine)) for operation in operations) == (activation == "Tanh")


def test_a_value_that_is_read_elsewhere_is_padded(tmp_path: Path) -> None:
    chain = Chain(3, 4, 6)
    chain.conv((3, 5), (1, 1))
    left = chain.add("Pad", chain.constant([0, 0, 0, 0, 0, 0, 0, 6]))
    chain.add("Conv", chain.weight(5, 3, 1, 1), first="x")
    chain.add("Add", left, first=chain.add("Pad", chain.constant([0, 0, 0, 6, 0, 0, 0, 0])))
    chain.add("Mul", left)
    assert not any(isinstance(node.operation, Beside) for node in graph_of(imported(chain, tmp_path)).nodes)


def test_copies_by_way_of_hbm_come_first(tmp_path: Path) -> None:
    """Boxes come before scores, although the file has the opposite order."""
    chain = Chain(3, 72, 72)
    beside(chain, 3, 80, [1, 2], "Sigmoid")
    scores = chain.value
    columns = beside(chain, 3, 4, [1, 2])
    chain.add("Mul", chain.weight(1, 4, columns))
    chain.add("Concat", scores, axis=1)
    graph = graph_of(imported(chain, tmp_path))
    numbers = [n for n, node in enumerate(graph.nodes) if isinstance(node.operation, Rearrange)]
    sizes = [node.operation.channels for node in graph.nodes[: numbers[-1]]]
    assert numbers and 80 not in sizes

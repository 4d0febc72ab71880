"""The kernels rewritten from other people's rows compute what they are named after, in every variant, and keep the
counts that the measured ones had."""

import math
import warnings
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from trninfer import simulator
from trninfer.benchmarks.kernels.attention_decode import attention_decode
from trninfer.benchmarks.kernels.attention_prefill import attention_prefill
from trninfer.benchmarks.kernels.moe import moe_sparse
from trninfer.benchmarks.measurements import family, kernel_name, launch_of, load_other_rows
from trninfer.benchmarks.other_launches import PARAMETERS
from trninfer.simulator.machine.instruction import Transfer

ROWS = {row.id: row for row in load_other_rows()}
D = 128


def narrow(rng: np.random.Generator, *shape: int, scale: float = 1.0) -> Any:
    return (scale * rng.standard_normal(shape)).astype(ml_dtypes.bfloat16)


def wide(array: Any) -> Any:
    return array.astype(np.float32)


def close(found: Any, expected: Any) -> None:
    assert np.abs(wide(found) - expected).max() < 0.04 * np.abs(expected).max()


def run(kernel: Any, *arrays: Any, **parameters: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the measured kernels set PSUM to zero first
        return simulator.run(kernel, *arrays, target="trn2", **parameters).outputs[0]


@pytest.mark.parametrize("row", [row for row in PARAMETERS if kernel_name(ROWS[row]) == "sparse MoE"])
def test_moe(row: str) -> None:
    rng = np.random.default_rng(0)
    features, inner, experts, chosen = 512, 128, 5, 2
    hidden = narrow(rng, 1, features)
    gate_up = narrow(rng, experts, features, 2 * inner, scale=features**-0.5)
    down = narrow(rng, experts, inner, features, scale=inner**-0.5)
    indices, weights = np.array([[3, 1]], np.int32), np.array([[0.75, 0.25]], np.float32)
    expected = np.zeros((1, features), np.float32)
    for k in range(chosen):
        gate, up = np.split(wide(hidden) @ wide(gate_up[indices[0, k]]), 2, axis=1)
        expected += weights[0, k] * (gate / (1 + np.exp(-gate)) * up) @ wide(down[indices[0, k]])
    close(run(moe_sparse, hidden, gate_up, down, indices, weights, **PARAMETERS[row]), expected)


def normal(x: Any, weight: Any) -> Any:
    """RMS normalisation as the measured kernels have it: the weights lie along the head."""
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * weight


def rotate(x: Any, cos: Any, sin: Any) -> Any:
    first, second = np.split(x, 2, axis=-1)
    return x * cos + np.concatenate([-second, first], axis=-1) * sin


def softmax(scores: Any) -> Any:
    exponentials = np.exp(scores - scores.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


@pytest.mark.parametrize("row", [row for row in PARAMETERS if "prefill" in ROWS[row].kernel])
def test_prefill(row: str) -> None:
    rng = np.random.default_rng(1)
    length, features, heads = 640, 256, 2
    hidden = narrow(rng, 1, length, features)
    weights = [narrow(rng, count * D, features, scale=features**-0.5) for count in (heads, 1, 1)]
    norms = [narrow(rng, D), narrow(rng, D)]
    angle = rng.uniform(0, 6, (length, D)).astype(np.float32)
    cos, sin = (part.astype(ml_dtypes.bfloat16) for part in (np.cos(angle), np.sin(angle)))
    parameters = dict(PARAMETERS[row])
    given = [w.T.copy() if parameters.get("transposed_weights") else w for w in weights]
    mask = np.triu(np.full((length, length), -1e30, np.float32), 1)
    extra = [mask] if row == "o12" else []
    found = run(attention_prefill, hidden, *given, *norms, cos, sin, *extra, **parameters)

    x, (wq, wk, wv) = wide(hidden[0]), [wide(w) for w in weights]
    keys = rotate(normal(x @ wk.T, wide(norms[1])), wide(cos), wide(sin))
    values = x @ wv.T
    expected = []
    for head in range(heads):
        queries = rotate(normal(x @ wq[head * D : head * D + D].T, wide(norms[0])), wide(cos), wide(sin))
        expected.append(softmax(queries @ keys.T * D**-0.5 + mask) @ values)
    close(found, np.concatenate(expected, axis=1))


def test_decode_runs_and_is_bound_by_its_elements() -> None:
    launch = launch_of(ROWS["o01"])
    timed = simulator.run(launch.kernel, *launch.arguments, functional=False, profiled=True)
    assert timed.bound_by == "dma_bandwidth" and launch.kernel is attention_decode
    elements = [i.dma.descriptors for i in timed.program if i.dma is not None]
    assert elements.count(D * 2048) == 8  # the output weights, 2 bytes a piece


def test_rows_have_the_transfers_that_their_profiles_counted() -> None:
    """As the notes tell: 809 DMAs of v5, 221 of v6a, 185 of v6b, 425 of v6c, 173 of v7a, 170 of v7c; of v6a 2,048
    matmuls in the prefill."""
    for row, count in (("o02", 809), ("o06", 221), ("o07", 185), ("o08", 425), ("o09", 173), ("o11", 170)):
        launch = launch_of(ROWS[row])
        program = simulator.run(launch.kernel, *launch.arguments, functional=False, **launch.parameters).program
        assert sum(i.dma is not None for i in program) == count, row


def packets(transfer: Transfer) -> int:
    """As profiles count them of GpSimd's descriptors: on each engine up to 4 KiB and 64 elements to a packet, and one
    for the semaphore."""
    engines = {partition // 8 for partition in range(transfer.row, transfer.row + transfer.partitions)}
    size, elements = (8 * count / transfer.partitions for count in (transfer.bytes, transfer.descriptors))
    return len(engines) * (max(math.ceil(size / 4096), math.ceil(elements / 64)) + 1)


@pytest.mark.parametrize(
    ("row", "software"),
    [("o02", 25088), ("o06", 9728), ("o07", 8960), ("o08", 14848), ("o09", 8960), ("o11", 8496), ("o18", 10368)],
)
def test_gpsimd_makes_as_many_packets_as_profiles_counted(row: str, software: int) -> None:
    launch = launch_of(ROWS[row])
    program = simulator.run(launch.kernel, *launch.arguments, functional=False, **launch.parameters).program
    moved = [i.dma for i in program if i.dma is not None]
    assert sum(packets(transfer) for transfer in moved if transfer.software) == software


def test_the_hardware_makes_as_many_packets_as_profiles_counted() -> None:
    for row, hardware in (("o16", 3_966_880), ("o18", 5760)):
        launch = launch_of(ROWS[row])
        program = simulator.run(launch.kernel, *launch.arguments, functional=False, **launch.parameters).program
        made = [i.dma for i in program if i.dma is not None and i.dma.dge and not i.dma.software]
        assert sum(transfer.descriptors + 16 for transfer in made) == hardware


def test_families() -> None:
    assert len({family(row) for row in ROWS.values()}) == 7

"""Networks whose values do not fit in SBUF, in bands of rows and through HBM, compared with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from batched_networks import RandomNetwork
from trninfer.lowering.config import LoweringConfig
from trninfer.lowering.passes import assign_memory, stream_input
from trninfer.models import Model
from trninfer.models.importing import ImportOptions, import_network
from trninfer.runtime.session import Session
from trninfer.runtime.simulated import SimulatedBackend
from trninfer.runtime.tolerances import network_tolerance

BATCHES = (1, 2, 3, 4, 7, 16)
FLOAT32 = 1e-4
# Networks with gates, averages and batch norms in bands of rows, and values in HBM.
SEEDS = [pytest.param(seed, marks=pytest.mark.by_hand) for seed in (15, 29, 438, 446)]


@pytest.fixture
def small_sbuf(monkeypatch: pytest.MonkeyPatch, one_launch: None) -> Iterator[None]:
    """Limit SBUF to 28 KiB per partition, of which convolutions from HBM may use 10 at a time."""
    monkeypatch.setattr(LoweringConfig, "budget_bytes", 28 * 1024)
    for module in (stream_input, assign_memory):
        monkeypatch.setattr(module, "GROUP_BYTES", 10 * 1024)
    yield


@pytest.mark.parametrize("seed", SEEDS)
def test_each_picture_is_answered_as_onnx_runtime_answers_it(seed: int, tmp_path: Path, small_sbuf: None) -> None:
    random = np.random.default_rng(seed)
    network = RandomNetwork(seed, least=52, most=72)
    path = network.saved(tmp_path)
    golden = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    imported = import_network(path, options=ImportOptions(output_kind="values"))
    dtype = str(random.choice(["float32", "float16", "bfloat16"]))
    session = Session(Model(imported.network, imported.tensors, {}), SimulatedBackend("trn2"), dtype, max(BATCHES))
    for batch in random.permutation(BATCHES)[:2].tolist():
        x = random.standard_normal((batch, *network.shape)).astype(np.float32)
        assert any(
            {"bands", "spill"} <= {choice["kind"] for choice in launch.decisions or ()}
            for launch in session.show(batch)
        )
        (expected,) = golden.run(None, {"x": x})
        error = np.abs(session.run(x).probabilities - expected).max()
        tolerance = FLOAT32 if dtype == "float32" else network_tolerance(dtype)
        assert error <= tolerance * max(1.0, np.abs(expected).max()), [dtype, batch, *network.words]

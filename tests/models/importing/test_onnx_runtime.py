"""The comparison with ONNX Runtime has bounded cost."""

from __future__ import annotations

import math
import tracemalloc
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from onnx_chain import Chain
from trninfer.models.errors import ModelError
from trninfer.models.importing import Comparison, ImportOptions, import_network, onnx_file, onnx_runtime, onnx_tensors


def compared(chain: Chain, folder: Path, batch: int | None = None) -> Comparison:
    if batch is not None:
        chain.inputs[0].type.tensor_type.shape.dim[0].dim_value = batch
    return import_network(chain.save(folder)).comparison


def image() -> Chain:
    chain = Chain(3, 16, 16)
    chain.conv((3, 8))
    chain.add("GlobalAveragePool")
    chain.add("Flatten")
    return chain


@pytest.mark.parametrize("batch", [1, 3, 200])
def test_a_batch_that_the_file_fixes_is_tried(batch: int, tmp_path: Path) -> None:
    comparison = compared(image(), tmp_path, batch)
    assert comparison.passed and not comparison.skipped


def test_a_batch_that_is_too_large_is_reported_before_anything_is_made(tmp_path: Path) -> None:
    chain = image()
    tracemalloc.start()
    comparison = compared(chain, tmp_path, 1 << 20)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "too large to be compared (1048576 x" in comparison.skipped
    assert peak < 50 << 20


def test_many_small_examples_are_too_many(tmp_path: Path) -> None:
    chain = Chain(4)
    chain.gemm(4, 2)
    assert "too large to be compared (100000 x" in compared(chain, tmp_path, 100_000).skipped


def test_examples_are_run_as_many_at_once_as_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network = import_network(image().save(tmp_path)).network
    one = sum(max(onnx_runtime.LEAST, size) for size in (768, 8 * 14 * 14, 8, 8))
    assert len(network.layers) == 3
    for limit, reason in ((one, ""), (one - 1, "too large to be compared (1 x")):
        monkeypatch.setattr(onnx_runtime, "MAX_ELEMENTS", limit)
        assert compared(image(), tmp_path).skipped.startswith(reason)
        assert bool(compared(image(), tmp_path).skipped) == bool(reason)
        assert compared(image(), tmp_path).examples == (0 if reason else 16)


def test_fewer_examples_of_what_takes_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = 14 * 14 * 8 * 27
    for most, examples in ((16 * work, 16), (15 * work, 3), (2 * work, 1)):
        monkeypatch.setattr(onnx_runtime, "EXAMPLES", ((16, most), (3, most)))
        assert compared(image(), tmp_path).examples == examples
    assert compared(image(), tmp_path, 2).examples == 2  # the batch size of the file


@pytest.mark.parametrize(("share", "noted"), [(3e-6, False), (4e-4, True)])
def test_differences_larger_than_usual_rounding_are_noted(
    share: float, noted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = onnx_runtime.run_network
    larger = 1 + share
    monkeypatch.setattr(onnx_runtime, "run_network", lambda network, tensors, x: real(network, tensors, x * larger))
    chain = Chain(6)
    chain.gemm(6, 4)
    imported = import_network(chain.save(tmp_path))
    assert imported.comparison.passed
    assert any("of the largest output, which is more than rounding" in note for note in imported.notes) == noted


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_weights_of_half_precision_differ_by_more(dtype: type, tmp_path: Path) -> None:
    """Ultralytics' half=True and ONNX Runtime's converter keep inputs and outputs in float32."""
    chain = Chain(6)
    chain.weights.append(numpy_helper.from_array(np.ones((6, 4), dtype), "w"))
    chain.add("Cast", to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
    chain.add("MatMul", "w")
    chain.add("Cast", to=TensorProto.FLOAT)
    assert compared(chain, tmp_path).tolerance == onnx_runtime.TOLERANCES[np.dtype(dtype).name]


def test_scores_are_compared_before_the_softmax(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Saturated probabilities hide a difference that the scores show."""
    chain = Chain(6)
    chain.gemm(6, 4)
    chain.add("Mul", chain.constant(1e4))
    chain.add("Softmax", axis=1)
    chain.add("Unsqueeze", chain.constant([1]))
    comparison = compared(chain, tmp_path)
    assert comparison.passed and comparison.largest_output > 100
    real = onnx_runtime.run_network
    monkeypatch.setattr(onnx_runtime, "run_network", lambda network, tensors, x: real(network, tensors, x * 1.01))
    worse = compared(chain, tmp_path)
    assert not worse.passed and worse.max_abs_error > 1


@pytest.mark.parametrize("op", ["Sigmoid", "HardSigmoid", "Tanh"])
def test_numbers_are_compared_before_a_function_that_saturates(
    op: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A classifier that is certain of "no" passes, and an incorrect one is detected."""
    chain = Chain(6)
    chain.gemm(6, 1)
    chain.add("Mul", chain.constant(0.01))
    chain.add("Sub", chain.constant(30.0))
    chain.add(op)
    comparison = compared(chain, tmp_path)
    assert comparison.passed and comparison.skipped == "" and 29 < comparison.largest_output < 31
    real = onnx_runtime.run_network
    monkeypatch.setattr(onnx_runtime, "run_network", lambda network, tensors, x: real(network, tensors, x * 50))
    assert not compared(chain, tmp_path).passed


@pytest.mark.parametrize("infinity", [math.inf, -math.inf])
def test_finite_numbers_beside_infinities_are_compared(
    infinity: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An infinite output in the file does not hide differences in the others."""
    chain = Chain(6)
    chain.gemm(6, 4)
    chain.add("Pad", chain.constant([0, 0, 0, 1]), chain.constant(infinity))
    comparison = compared(chain, tmp_path)
    assert comparison.passed and comparison.skipped == "" and 0 < comparison.largest_output < 100
    real = onnx_runtime.run_network
    monkeypatch.setattr(onnx_runtime, "run_network", lambda network, tensors, x: real(network, tensors, x * 1.01))
    assert not compared(chain, tmp_path).passed


def test_outputs_of_nothing_are_not_compared(tmp_path: Path) -> None:
    chain = Chain(6)
    chain.gemm(6, 3)
    chain.add("Abs")
    chain.add("Neg")
    chain.add("Relu")
    comparison = compared(chain, tmp_path)
    assert comparison.passed
    assert comparison.skipped == "the outputs are at most 0 on random inputs, too small for a comparison"


def test_random_inputs_are_reproducible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_runtime, "MAX_RANDOM", 100)
    comparison = compared(image(), tmp_path)
    assert comparison.passed and comparison.largest_output > 0


@pytest.fixture
def large_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat every weight as large."""
    monkeypatch.setattr(onnx_tensors, "LARGE", 1)
    monkeypatch.setattr(onnx_tensors, "MANY", 1)


@pytest.mark.usefixtures("large_weights")
@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(channels=st.lists(st.integers(1, 9), max_size=3), features=st.lists(st.integers(1, 9), min_size=1, max_size=3))
def test_large_weights_are_inputs_of_the_file(channels: list[int], features: list[int], tmp_path: Path) -> None:
    """Random convolutions and dense layers: ONNX Runtime's answers are the same as for the file that contains its
    weights."""
    chain, width = Chain(2, 9, 9, seed=sum(features)), 2
    for count in channels:
        chain.conv((width, count), pads=[1, 1, 1, 1])
        chain.add("Relu")
        width = count
    chain.add("Flatten")
    width *= 81
    for count in features:
        chain.gemm(width, count)
        width = count
    path = chain.save(tmp_path)
    stripped = onnx_file.read_onnx(path).stripped
    assert stripped is not None and len(stripped.names) == 2 * (len(channels) + len(features))
    comparison = import_network(path).comparison
    assert comparison.passed and not comparison.skipped
    weights = {name: each for name, each in onnx_file.read_onnx(path).constants.items() if name in stripped.names}
    assert len(stripped.message) < path.stat().st_size - sum(each.nbytes for each in weights.values()) + 100 * len(
        weights
    )


@pytest.mark.usefixtures("large_weights")
def test_wrong_large_weights_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = onnx_runtime.run_network
    monkeypatch.setattr(onnx_runtime, "run_network", lambda network, tensors, x: real(network, tensors, x * 1.01))
    assert not import_network(image().save(tmp_path)).comparison.passed


@pytest.mark.usefixtures("large_weights")
@pytest.mark.parametrize("are_listed", [False, True])
def test_a_part_of_a_file_with_large_weights(are_listed: bool, tmp_path: Path) -> None:
    """The graph is cut after the first dense layer; old files list weights as inputs."""
    chain = Chain(6)
    chain.gemm(6, 4)
    inner = chain.value
    chain.gemm(4, 3)
    if are_listed:
        chain.inputs += [helper.make_tensor_value_info(w.name, w.data_type, w.dims) for w in chain.weights]
    path = chain.save(tmp_path)
    for names in ((), (inner,)):
        comparison = import_network(path, options=ImportOptions(output_names=names)).comparison
        assert comparison.passed and not comparison.skipped


def test_weights_stay_in_a_file_that_has_few(tmp_path: Path) -> None:
    assert onnx_file.read_onnx(image().save(tmp_path)).stripped is None


def test_small_weights_beside_a_file_whose_large_ones_are_lent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As torch.export writes vit_b_32: all weights are in an external file."""
    monkeypatch.setattr(onnx_tensors, "LARGE", 4096)
    monkeypatch.setattr(onnx_tensors, "MANY", 4096)
    chain = Chain(40)
    chain.gemm(40, 50)
    chain.gemm(50, 3)
    path = tmp_path / "n.onnx"
    onnx.save_model(chain.model(), str(path), save_as_external_data=True, location="n.data", size_threshold=0)
    imported = import_network(path)
    assert imported.comparison.passed and not imported.comparison.skipped


def assigning(to: slice) -> Chain:
    """The graph of x[to] = sigmoid(x)[to], in which the indices are computed from the size of an open batch."""
    chain = Chain(4, 5, 6)
    changed = chain.add("Sigmoid")
    count = chain.add("Gather", chain.constant(0), first=chain.add("Shape", first="x"), axis=0)
    entries = chain.add("Range", count, chain.constant(1), first=chain.constant(0))
    bounds = [chain.constant([bound]) for bound in (0, to.stop or 100)]
    entries = chain.add("Slice", *bounds, first=entries)
    changed = chain.add("Slice", *bounds, first=changed)
    chain.add("ScatterND", chain.add("Unsqueeze", chain.constant([-1]), first=entries), changed, first="x")
    chain.add("Flatten")
    chain.gemm(120, 3)
    return chain


def test_outputs_that_depend_on_the_other_inputs_of_a_batch_are_refused(tmp_path: Path) -> None:
    """PyTorch's newer exporter writes x[:1] = y in this way; for a batch of one, it assigns to all inputs."""
    compared(assigning(slice(None)), tmp_path)
    with pytest.raises(ModelError, match="in a batch of 3, ONNX Runtime computes other outputs for an input"):
        compared(assigning(slice(1)), tmp_path)


def test_assignments_to_an_open_batch_must_be_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_runtime, "MAX_ELEMENTS", 1)
    with pytest.raises(ModelError, match="may leave out some of its inputs, so it must be compared with ONNX Runtime"):
        compared(assigning(slice(1)), tmp_path)


@pytest.mark.parametrize("shape", [[1, 8], [1, -1], [-1, 4, 2]])
def test_files_that_reshape_to_a_single_input_are_accepted(shape: list[int], tmp_path: Path) -> None:
    """ONNX Runtime cannot run them in batches, or their outputs cannot be divided among the inputs."""
    chain = Chain(8)
    chain.gemm(8, 8)
    chain.add("Reshape", chain.constant(shape))
    chain.add("Relu")
    assert compared(chain, tmp_path).passed


def test_large_networks_are_not_run_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_runtime, "MAX_WORK", 2 * 14 * 14 * 8 * 27)
    sizes = []
    real = onnx_runtime._File.run
    monkeypatch.setattr(onnx_runtime._File, "run", lambda file, x: sizes.append(len(x[0])) or real(file, x))
    assert compared(image(), tmp_path).passed
    assert set(sizes) == {1}

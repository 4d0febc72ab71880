"""The second way to the chip, with a stand-in for AWS's nki that checks every call."""

from __future__ import annotations

import os
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from neuron_stand_ins import forget_variables, matrix, noting_options, use_packages, use_tools
from trninfer import kernels
from trninfer.app.errors import BAD_USAGE, NO_BACKEND, exit_status
from trninfer.benchmarks.workloads import residual_network
from trninfer.models import load_model
from trninfer.models.golden import run_network
from trninfer.runtime.backend import BackendUnavailable, KernelError
from trninfer.runtime.launch_options import LaunchOptions
from trninfer.runtime.neuron import environment
from trninfer.runtime.neuron.device import Device, DeviceArray
from trninfer.runtime.neuron.errors import CoreInUse, DeviceLost, ExecutionError
from trninfer.runtime.neuron.nrt import NrtBackend, open_nrt
from trninfer.runtime.neuron.system import prepare_environment
from trninfer.runtime.session import Session

pytestmark = pytest.mark.slow


@pytest.fixture
def chip(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Make child processes find the stand-ins, and simulate a Neuron device."""
    forget_variables(monkeypatch)
    use_packages(monkeypatch, environment.NRT)
    prepare_environment("trn2", True, os.environ)
    return monkeypatch


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cache that tests share, since each compilation requires a process."""
    return tmp_path_factory.mktemp("compiled")


def make(notes: list[str], folder: Path | None, **options) -> NrtBackend:
    return open_nrt("trn2", noting_options(notes, folder, **options))


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_a_kernel_is_compiled_once_and_runs(chip, notes, tmp_path, dtype) -> None:
    for _ in range(2):
        result = make(notes, tmp_path).launch(kernels.transpose, matrix(6, 7, dtype=dtype))
        np.testing.assert_array_equal(np.asarray(result.outputs[0]), matrix(6, 7, dtype=dtype).T)
    assert [note.split()[0] for note in notes] == ["compiling", "compiled"]
    assert (
        result.time.latency_us_p99 >= result.time.latency_us > 0 and result.time.hbm_bytes == 2 * 42 * dtype(0).itemsize
    )


def test_results_stay_on_the_device_and_are_operands_as_they_are(chip, notes, compiled) -> None:
    backend = make(notes, compiled)
    first = backend.launch(kernels.transpose, matrix(5, 7)).outputs[0]
    assert isinstance(first, DeviceArray) and (first.shape, first.dtype, len(first)) == ((7, 5), np.float32, 7)
    again = backend.launch(kernels.transpose, matrix(5, 7) + 1).outputs[0]  # uses separate memory
    back = backend.launch(kernels.transpose, first).outputs[0]
    np.testing.assert_array_equal(np.asarray(back), matrix(5, 7))
    np.testing.assert_array_equal(np.asarray(again), (matrix(5, 7) + 1).T)
    np.testing.assert_array_equal(np.asarray(first.reshape((5, 7))), matrix(5, 7).T.reshape(5, 7))
    with pytest.raises(ValueError, match="cannot be reshaped"):
        first.reshape((5, 8))


def test_a_network_and_its_golden_model(chip, notes, compiled) -> None:
    model = load_model("digits-ffnn")
    x = np.random.default_rng(5).uniform(0, 16, (3, 64)).astype(np.float32)
    result = Session(model, make(notes, compiled), batch_size=2).run(x)
    np.testing.assert_allclose(
        result.probabilities, run_network(model.network, model.tensors, x).probabilities, atol=1e-5
    )


@pytest.mark.usefixtures("first_plans")
@pytest.mark.parametrize("instructions", [50_000, pytest.param(64, marks=pytest.mark.by_hand)])  # one launch, several
def test_a_network_with_sums_is_compiled_once_and_its_weights_stay(chip, notes, tmp_path, instructions) -> None:
    chip.setenv("STAND_IN_NRT", "void")
    asked: list[tuple[str, int]] = []
    ask = Device.ask

    def noting(self, operation, array=None, **fields):
        asked.append((operation, 0 if array is None else array.nbytes))
        return ask(self, operation, array, **fields)

    chip.setattr(Device, "ask", noting)
    model = residual_network(32, 8)
    x = np.random.default_rng(5).standard_normal((6, 3, 32, 32)).astype(np.float32)
    golden = run_network(model.network, model.tensors, x).probabilities
    for _ in range(2):  # the second run uses the cache
        backend = make(notes, tmp_path, warmup=0, iterations=1)
        session = Session(model, backend, "float32", 2, LaunchOptions(instructions=instructions))
        np.testing.assert_allclose(session.run(x).probabilities, golden, atol=1e-5)
        compiled = [note for note in notes if note.startswith("compiling")]
        assert all("run_network" in note for note in compiled) and (len(compiled) > 1) == (instructions == 64)
        asked.clear()
        np.testing.assert_allclose(session.run(x).probabilities, golden, atol=1e-5)
        written = [size for operation, size in asked if operation in ("put", "write")]
        filled = 2 * x[:2].nbytes  # four pictures with zeros around them, as the plan may require
        launches = 3  # of two pictures
        assert len(written) == launches and all(filled / 2 <= size < 1.5 * filled for size in written), "nothing else"
        assert sum(operation == "read" for operation, _ in asked) == launches * 2  # scores and classes


@pytest.mark.parametrize("told", ["dtypes", "void"])
@pytest.mark.parametrize("launches", ["network", "layer"])
def test_tensors_have_the_shape_and_dtype_that_the_model_tells(chip, notes, compiled, told, launches) -> None:
    """With nrtpy's rules, whatever the wording; the process ignores the user's asynchronous queue."""
    chip.setenv("STAND_IN_NRT", told)
    chip.setenv("NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS", "8")
    model = load_model("digits-ffnn")
    x = np.random.default_rng(5).uniform(0, 16, (3, 64)).astype(np.float32)
    backend = make(notes, compiled, device_times=True)
    result = Session(model, backend, "bfloat16", batch_size=2, launches=LaunchOptions(launches)).run(x)
    golden = run_network(model.network, model.tensors, x).probabilities
    np.testing.assert_allclose(result.probabilities, golden, atol=5e-2)
    assert all(layer.device_us > 0 for layer in result.layers)


def test_times_on_the_device(chip, notes, compiled) -> None:
    timed = make(notes, compiled, device_times=True, iterations=3).launch(kernels.transpose, matrix(5, 7)).time
    assert (timed.device_us, timed.device_us_p99) == (
        pytest.approx(11.0),
        pytest.approx(np.percentile([10, 11, 12], 99)),
    )
    assert timed.device_by == "nki.runtime"
    assert make(notes, compiled).launch(kernels.transpose, matrix(5, 7)).time.device_us is None


@pytest.fixture
def explorer(chip) -> None:
    """Simulate an installed neuron-explorer."""
    use_tools(chip)


@pytest.mark.parametrize(
    ("fault", "told"), [("trace", "no device execution events"), ("events", "4 device events for 2")]
)
def test_no_time_on_the_device_is_reported_and_no_reason_to_fail(chip, notes, compiled, fault, told) -> None:
    chip.setenv("STAND_IN_NRT", fault)
    result = make(notes, compiled, device_times=True).launch(kernels.transpose, matrix(5, 7))
    assert result.time.device_us is None
    (note,) = [note for note in notes if "no time on the device" in note]
    assert told in note and note.endswith("neuron-explorer is not installed (aws-neuronx-tools)")


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_a_captured_profile_reports_what_nrtpy_does_not(chip, explorer, notes, compiled, dtype) -> None:
    chip.setenv("STAND_IN_NRT", "trace")
    time = make(notes, compiled, device_times=True, warmup=0).launch(kernels.transpose, matrix(5, 7, dtype=dtype)).time
    assert (time.device_us, time.device_us_p99) == (pytest.approx(16.0), None)
    assert time.device_by == "neuron-explorer capture" + ("" if dtype is np.float32 else ", inputs of zeros")


def test_a_capture_needs_a_neff_in_the_cache(chip, explorer, notes) -> None:
    chip.setenv("STAND_IN_NRT", "trace")
    assert make(notes, None, device_times=True).launch(kernels.transpose, matrix(5, 7)).time.device_us is None
    assert any("kernel.neff is not in the cache, so neuron-explorer cannot read it" in note for note in notes)


def test_a_mean_is_reported_as_one(chip, notes, compiled) -> None:
    chip.setenv("STAND_IN_NRT", "mean")
    time = make(notes, compiled, device_times=True).launch(kernels.transpose, matrix(5, 7)).time
    assert (time.device_us, time.device_us_p99, time.device_by) == (pytest.approx(11.0), None, "nki.runtime, mean")


@pytest.mark.parametrize(
    ("fault", "kind", "status", "told"),
    [
        ("load", ExecutionError, BAD_USAGE, r"NRT_FAILURE\(6\)"),
        ("busy", CoreInUse, NO_BACKEND, "^NeuronCore 0 is in use by another process"),
        ("run", DeviceLost, NO_BACKEND, "NRT_EXEC_HW_ERR_NC_UE"),
        ("oob", ExecutionError, BAD_USAGE, r"NRT_EXEC_OOB\(1006\)"),
        ("die", DeviceLost, NO_BACKEND, "ended during run .exit status 9"),
        ("sizes", ExecutionError, BAD_USAGE, "the NEFF has the inputs"),
        ("type", ExecutionError, BAD_USAGE, "the dtype of output_0 is uint32 in the NEFF, but float32 in the kernel"),
        ("read", DeviceLost, NO_BACKEND, "NRT_EXEC_HW_ERR_HBM_UE"),
        ("short", ExecutionError, BAD_USAGE, "a result has 1 bytes; expected 140 for float32"),
    ],
)
def test_a_fault_at_each_step_is_one_line(chip, notes, compiled, tmp_path, fault, kind, status, told) -> None:
    chip.setenv("STAND_IN_NRT", fault)
    # a file that cannot be loaded is removed from the cache
    folder = tmp_path if fault in ("load", "sizes", "type") else compiled
    with pytest.raises(kind, match=told) as caught:
        np.asarray(make(notes, folder).launch(kernels.transpose, matrix(5, 7)).outputs[0])
    assert exit_status(caught.value) == status and "\n" not in str(caught.value)


def test_a_kernel_inside_a_function_cannot_be_compiled_elsewhere(chip, notes, tmp_path) -> None:
    import nki

    @nki.jit
    def local(a):
        return kernels.transpose(a)

    with pytest.raises(KernelError, match="must be a module-level function"):
        make(notes, tmp_path).launch(local, matrix(3, 4))


def test_a_library_that_is_missing(chip, notes, tmp_path) -> None:
    chip.setenv("STAND_IN_NRT", "library")
    with pytest.raises(BackendUnavailable, match=r"nki.runtime cannot be used .*libnrt.so.1: cannot open shared"):
        make(notes, tmp_path)


def test_an_execution_without_an_end_is_given_up_and_the_next_has_a_new_process(chip, notes, compiled) -> None:
    backend = make(notes, compiled)
    backend.launch(kernels.transpose, matrix(5, 7))
    chip.setenv("STAND_IN_NRT", "hang")
    chip.setattr("trninfer.runtime.neuron.nrt.EXECUTION_SECONDS", 0.2)
    backend.restart()
    with pytest.raises(DeviceLost, match="no answer to run within 0 s; its process was stopped"):
        backend.launch(kernels.transpose, matrix(5, 7))
    chip.delenv("STAND_IN_NRT")
    chip.setattr("trninfer.runtime.neuron.nrt.EXECUTION_SECONDS", 600)
    result = backend.launch(kernels.transpose, matrix(5, 7))
    np.testing.assert_array_equal(np.asarray(result.outputs[0]), matrix(5, 7).T)

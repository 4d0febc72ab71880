"""The first way to the chip, with stand-ins for torch, torch_neuronx and nki that check every call."""

from __future__ import annotations

import gc
import os
import signal
from dataclasses import replace
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
from trninfer.runtime.backend import ArraySpec, BackendUnavailable, KernelError
from trninfer.runtime.launch_options import LaunchOptions
from trninfer.runtime.neuron import environment
from trninfer.runtime.neuron.device import Device, DeviceArray
from trninfer.runtime.neuron.errors import CompileError, DeviceLost, ExecutionError
from trninfer.runtime.neuron.system import prepare_environment
from trninfer.runtime.neuron.torch_backend import TorchBackend, open_torch
from trninfer.runtime.session import Session

pytestmark = pytest.mark.slow


@pytest.fixture
def chip(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    forget_variables(monkeypatch)
    use_packages(monkeypatch, environment.TORCHNEURON)
    prepare_environment("trn2", True, os.environ)
    return monkeypatch


def make(notes: list[str], folder: Path | None = None, **options) -> TorchBackend:
    return open_torch("trn2", noting_options(notes, folder, **options))


def noted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Record the messages to the process, each with the bytes that accompany it."""
    asked: list[tuple[str, int]] = []
    ask = Device.ask

    def noting(self, operation, array=None, **fields):
        asked.append((operation, 0 if array is None else array.nbytes))
        return ask(self, operation, array, **fields)

    monkeypatch.setattr(Device, "ask", noting)
    return asked


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_a_kernel_runs_and_is_timed(chip, notes, dtype) -> None:
    result = make(notes).launch(kernels.transpose, matrix(6, 7, dtype=dtype))
    np.testing.assert_array_equal(np.asarray(result.outputs[0]), matrix(6, 7, dtype=dtype).T)
    assert [note.split()[0] for note in notes] == ["compiling", "compiled"] and "GiB" in notes[1]
    time = result.time
    assert time.latency_us_p99 >= time.latency_us > 0 and time.hbm_bytes == 2 * 42 * np.dtype(dtype).itemsize
    assert time.device_us is None and time.device_by is None


def test_several_results_and_integers(chip, notes) -> None:
    scores = matrix(4, 10)
    classes = make(notes).launch(kernels.argmax, scores).outputs[0]
    assert classes.dtype == np.int32 and np.asarray(classes).tolist() == scores.argmax(axis=1).tolist()


def test_timing_requires_only_shapes(chip, notes) -> None:
    specs = ArraySpec((3, 4), ml_dtypes.bfloat16), ArraySpec((1, 4), np.float32)
    launch = make(notes).time(kernels.kernel("bias_activation"), *specs)
    assert launch.outputs == () and launch.time.latency_us > 0


def test_results_stay_on_the_device_and_are_operands_as_they_are(chip, notes) -> None:
    backend = make(notes)
    first = backend.launch(kernels.transpose, matrix(5, 7)).outputs[0]
    assert isinstance(first, DeviceArray) and (first.shape, first.dtype, len(first)) == ((7, 5), np.float32, 7)
    again = backend.launch(kernels.transpose, matrix(5, 7) + 1).outputs[0]
    back = backend.launch(kernels.transpose, first).outputs[0]
    np.testing.assert_array_equal(np.asarray(back), matrix(5, 7))
    np.testing.assert_array_equal(np.asarray(again), (matrix(5, 7) + 1).T)
    viewed = backend.launch(kernels.transpose, first.reshape((5, 7))).outputs[0]
    np.testing.assert_array_equal(np.asarray(viewed), matrix(5, 7).T.reshape(5, 7).T)


@pytest.mark.parametrize("instructions", [50_000, pytest.param(64, marks=pytest.mark.by_hand)])  # one launch, several
def test_a_network_and_its_weights_stay_on_the_device(chip, notes, tmp_path, instructions) -> None:
    asked = noted(chip)
    model = residual_network(32, 8)
    x = np.random.default_rng(5).standard_normal((6, 3, 32, 32)).astype(np.float32)
    golden = run_network(model.network, model.tensors, x).probabilities
    backend = make(notes, tmp_path, warmup=0, iterations=1)
    session = Session(model, backend, "float32", 2, LaunchOptions(instructions=instructions))
    np.testing.assert_allclose(session.run(x).probabilities, golden, atol=1e-5)
    assert sum(note.startswith("compiling") for note in notes) > (instructions == 64)
    asked.clear()
    np.testing.assert_allclose(session.run(x).probabilities, golden, atol=1e-5)
    written = [size for operation, size in asked if operation in ("put", "write")]
    filled = 2 * x[:2].nbytes  # four pictures with zeros around them, as the plan may require
    launches = 3  # of two pictures
    assert len(written) == launches and all(filled / 2 <= size < 1.5 * filled for size in written), "nothing else"
    assert sum(operation == "read" for operation, _ in asked) == launches * 2  # scores and classes


def test_a_network_on_two_cores(chip, notes) -> None:
    chip.delenv("NEURON_LOGICAL_NC_CONFIG")
    prepare_environment("trn2", True, os.environ, lnc=2)
    backend = make(notes, lnc=2)
    model = residual_network(16, 8)
    x = np.random.default_rng(5).standard_normal((3, 3, 16, 16)).astype(np.float32)
    result = Session(model, backend, "float32", 3).run(x)
    np.testing.assert_allclose(
        result.probabilities, run_network(model.network, model.tensors, x).probabilities, atol=1e-5
    )


def test_a_network_layer_by_layer(chip, notes) -> None:
    model = load_model("digits-ffnn")
    x = np.random.default_rng(5).uniform(0, 16, (3, 64)).astype(np.float32)
    result = Session(model, make(notes), "bfloat16", batch_size=2, launches=LaunchOptions("layer")).run(x)
    golden = run_network(model.network, model.tensors, x).probabilities
    np.testing.assert_allclose(result.probabilities, golden, atol=5e-2)


def test_the_clock_runs_until_the_device_is_idle(chip, notes) -> None:
    chip.setenv("STAND_IN_SECONDS", "0.05")
    time = make(notes).launch(kernels.transpose, matrix(5, 7)).time
    assert time.latency_us >= 50_000


def test_times_on_the_device(chip, notes, tmp_path) -> None:
    use_tools(chip)
    timed = make(notes, device_times=True).launch(kernels.transpose, matrix(5, 7)).time
    assert (timed.device_us, timed.device_us_p99) == (pytest.approx(17.0), None)  # from the profile
    assert timed.device_by == "torch.profiler"
    chip.setenv("STAND_IN_PROFILER", "refuse")
    timed = make(notes, tmp_path, device_times=True).launch(kernels.transpose, matrix(5, 7)).time
    assert timed.device_us == pytest.approx(16.0) and timed.device_by == "neuron-explorer capture"


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("refuse", "torch.profiler: RuntimeError: failed to allocate 5 GB"),
        ("two", "wrote 2 NTFFs"),
        ("nothing", "wrote 0 NTFFs"),
    ],
)
def test_no_time_on_the_device_is_reported_and_no_reason_to_fail(chip, notes, fault, told) -> None:
    chip.setenv("STAND_IN_PROFILER", fault)
    result = make(notes, device_times=True).launch(kernels.transpose, matrix(5, 7))
    assert result.time.device_us is None
    (note,) = [note for note in notes if "no time on the device" in note]
    assert told in note and note.endswith("TorchNeuron did not leave exactly one kernel.neff to capture")


def test_deleted_tensor_is_freed(chip, notes) -> None:
    sent: list[str] = []
    exchange = Device._exchange
    chip.setattr(
        Device,
        "_exchange",
        lambda self, operation, *a, **k: sent.append(operation) or exchange(self, operation, *a, **k),
    )
    backend = make(notes)
    for _ in range(3):
        backend.launch(kernels.transpose, matrix(5, 7))
        gc.collect()
    assert sent.count("run") - sent.count("free") == 1 and sent.count("put") == 1  # only the last result still exists


def test_a_second_process_reports_the_kernel_in_the_cache_of_torchneuron(chip, notes, tmp_path) -> None:
    log = tmp_path / "compilations"
    chip.setenv("STAND_IN_NKI_LOG", str(log))
    for _ in range(2):
        make(notes, tmp_path).launch(kernels.transpose, matrix(3, 4))
    assert any("has been compiled before; TorchNeuron may take it" in note for note in notes)
    assert not any("not cached" in note for note in notes)
    (folder,) = (tmp_path / "torchneuron").iterdir()
    assert len(list(folder.rglob("*.neff"))) == 1  # in a folder for these versions and settings
    chip.setenv("NEURON_CC_FLAGS", "-O1")
    make(notes, tmp_path).launch(kernels.transpose, matrix(3, 4))
    assert len(list((tmp_path / "torchneuron").iterdir())) == 2


def test_folders_of_the_user_are_kept(chip, notes, tmp_path) -> None:
    chip.setenv("TORCH_NEURONX_NEFF_CACHE_DIR", str(tmp_path / "own"))
    make(notes, tmp_path / "cache").launch(kernels.transpose, matrix(3, 4))
    assert list((tmp_path / "own").iterdir()) and not list(tmp_path.rglob("cache/torchneuron/*/neff"))


def test_arguments_with_the_same_hash_are_two_kernels(chip, notes) -> None:
    """hash(-1.0) == hash(-2.0): with a key of hashes, the second would be mistaken for the first."""
    backend = make(notes)
    x = np.full((1, 8), -5, np.float32)
    for lowest in (-1.0, -2.0, -1.0):
        given = {"activation": "clip", "parameters": (lowest, 1.0)}
        out = backend.launch(kernels.kernel("bias_activation"), x, np.zeros((1, 8), np.float32), **given).outputs[0]
        assert np.asarray(out).max() == lowest


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ([1.0], "contains a list"),
        (np.float32(1), "has shape and dtype"),
        ((1.0, {"a": 1}), "contains a dict"),
    ],
)
def test_arguments_that_are_no_key_are_refused(chip, notes, value, told) -> None:
    with pytest.raises(KernelError, match=f"bias_activation: its argument parameters .*{told}"):
        make(notes).launch(
            kernels.kernel("bias_activation"), matrix(1, 8), matrix(1, 8), activation="clip", parameters=value
        )


def test_a_kernels_own_check_is_reported_before_anything_is_compiled(chip, notes) -> None:
    with pytest.raises(KernelError, match=r"transpose on trn2: .*\(3, 4, 5\)"):
        make(notes).launch(kernels.transpose, matrix(3, 4, 5))
    assert not notes


def test_a_kernel_inside_a_function_cannot_be_found_elsewhere(chip, notes) -> None:
    import nki

    @nki.jit
    def local(a):
        return kernels.transpose(a)

    with pytest.raises(KernelError, match="must be a module-level function"):
        make(notes).launch(local, matrix(3, 4))


@pytest.mark.parametrize(
    ("fault", "kind", "status", "told"),
    [
        ("compile", CompileError, BAD_USAGE, r"the compiler failed: \[NCC_EBVF030\].*; too many instructions"),
        ("lnc", CompileError, BAD_USAGE, r"\[NCC_EVRF066\].*NEURON_LOGICAL_NC_CONFIG must be equal to --lnc"),
        ("crash", CompileError, BAD_USAGE, r"ended during load \(exit status 11\)"),
        ("cpu", DeviceLost, NO_BACKEND, "transpose: its result is on cpu, so it did not run on the NeuronCore"),
        ("lost", DeviceLost, NO_BACKEND, "NRT_EXEC_HW_ERR_NC_UE"),
        ("oob", ExecutionError, BAD_USAGE, r"the kernel failed on the NeuronCore: .*NRT_EXEC_OOB\(1006\)"),
        ("shape", ExecutionError, BAD_USAGE, r"TorchNeuron returned .*\(1, 5\)"),
        ("dtype", ExecutionError, BAD_USAGE, "TorchNeuron returned .*float16"),
    ],
)
def test_a_fault_of_a_kernel_is_one_line(chip, notes, tmp_path, fault, kind, status, told) -> None:
    chip.setenv("STAND_IN_NKI", fault)
    with pytest.raises(kind, match=told) as caught:
        make(notes, tmp_path).launch(kernels.transpose, matrix(5, 7))
    assert exit_status(caught.value) == status and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("fault", "kind", "told"),
    [
        ("library", BackendUnavailable, "TorchNeuron cannot be used by .*: libnrt.so.1: cannot open shared object"),
        ("cpu", BackendUnavailable, "PyTorch's accelerator is cuda, not neuron"),
        ("stays", DeviceLost, "a tensor moved to neuron is on cpu"),
        ("copy", DeviceLost, "NRT_EXEC_HW_ERR_HBM_UE"),
    ],
)
def test_a_fault_of_torch_is_one_line_and_status_3(chip, notes, fault, kind, told) -> None:
    chip.setenv("STAND_IN_TORCH", fault)
    with pytest.raises(kind, match=told) as caught:
        make(notes).launch(kernels.transpose, matrix(5, 7))
    assert exit_status(caught.value) == NO_BACKEND and "\n" not in str(caught.value)


def test_an_environment_without_torch_neuronx(chip, notes, tmp_path) -> None:
    (tmp_path / "torch_neuronx.py").write_text("raise ImportError('No module named torch_neuronx')")
    chip.syspath_prepend(str(tmp_path))
    with pytest.raises(BackendUnavailable, match="No module named torch_neuronx"):
        make(notes)


def test_output_of_the_compiler_is_kept(chip, notes, tmp_path, capfd) -> None:
    chip.setenv("STAND_IN_NKI", "compile")
    backend = make(notes, tmp_path)
    with pytest.raises(CompileError) as caught:
        backend.launch(kernels.transpose, matrix(5, 7))
    log = tmp_path / "last-failure.log"
    assert str(log) in str(caught.value) and "ERROR: compiler says why" in log.read_text()
    assert "compiler says why" in caught.value.log and capfd.readouterr().out == ""
    (attempt,) = backend.compilations
    assert "NCC_EBVF030" in attempt.error and "compiler says why" in attempt.log


def test_a_compilation_has_a_limit_and_the_next_launch_a_new_process(chip, notes, monkeypatch) -> None:
    monkeypatch.setattr("trninfer.runtime.neuron.device.NOTE_SECONDS", 0.5)
    chip.setenv("STAND_IN_NKI", "slow")
    backend = make(notes, compile_seconds=1.2)
    with pytest.raises(CompileError, match="not compiled within 1 s"):
        backend.launch(kernels.transpose, matrix(5, 7))
    assert any("so far, 1 s at most" in note for note in notes)
    chip.setenv("STAND_IN_NKI", "")
    backend._options = replace(backend._options, compile_seconds=60)
    np.testing.assert_array_equal(
        np.asarray(backend.launch(kernels.transpose, matrix(5, 7)).outputs[0]), matrix(5, 7).T
    )


def test_a_process_that_ends_is_reported_and_replaced(chip, notes) -> None:
    backend = make(notes)
    weights = matrix(5, 7)
    weights.setflags(write=False)
    kept = backend.launch(kernels.transpose, weights).outputs[0]
    process = backend._device._process
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    with pytest.raises(DeviceLost, match="a NeuronCore whose process has ended"):
        np.asarray(kept)
    with pytest.raises(DeviceLost, match="an operand was on a NeuronCore whose process has ended"):
        backend.launch(kernels.transpose, kept)
    np.testing.assert_array_equal(np.asarray(backend.launch(kernels.transpose, weights).outputs[0]), weights.T)
    backend.close()


def test_an_execution_without_an_end_is_given_up(chip, notes) -> None:
    chip.setenv("STAND_IN_SECONDS", "1")
    chip.setattr("trninfer.runtime.neuron.torch_backend.EXECUTION_SECONDS", 0.2)
    backend = make(notes)
    with pytest.raises(DeviceLost, match="no answer to run within 0 s; its process was stopped"):
        backend.launch(kernels.transpose, matrix(5, 7))
    chip.delenv("STAND_IN_SECONDS")
    result = backend.launch(kernels.transpose, matrix(5, 7))
    np.testing.assert_array_equal(np.asarray(result.outputs[0]), matrix(5, 7).T)


@pytest.mark.parametrize("options", [{"warmup": -1}, {"iterations": 0}])
def test_senseless_counts_are_refused(chip, notes, options) -> None:
    with pytest.raises(ValueError, match="warmup must be at least 0 and iterations at least 1"):
        make(notes, **options)

"""The way by PyTorch NeuronX against stand-ins whose signatures are the documented ones."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from neuron_stand_ins import STAND_INS
from trninfer import kernels
from trninfer.app.errors import BAD_USAGE, NO_BACKEND, exit_status
from trninfer.kernels import nki_source
from trninfer.models import Dense, FeatureInput, Model, Network, Softmax
from trninfer.models.golden import run_network
from trninfer.runtime.backend import ArraySpec, BackendUnavailable, KernelError, LaunchTime
from trninfer.runtime.beside import SimulatorDied, SimulatorFault
from trninfer.runtime.neuron import compiled, environment
from trninfer.runtime.neuron import pytorch_backend as pytorch
from trninfer.runtime.neuron.compile_cache import CompileCache
from trninfer.runtime.neuron.errors import CompileError, DeviceLost, ExecutionError
from trninfer.runtime.session import Session

USE_NKI = nki_source.use_nki


@pytest.fixture
def control(packages: SimpleNamespace):
    return packages.torch_neuronx.control


@pytest.fixture
def notes() -> list[str]:
    return []


def make(notes: list[str], folder: Path | None = None, **options) -> pytorch.PyTorchBackend:
    cache = CompileCache(folder, notes.append)
    return pytorch.PyTorchBackend("trn2", cache=cache, progress=notes.append, warn=notes.append, **options)


def matrix(*shape: int, dtype=np.float32) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(shape).astype(dtype)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_arrays_come_back_as_the_kernel_made_them(control, notes, dtype) -> None:
    a = matrix(5, 7, dtype=dtype)
    a.flags.writeable = False
    launch = make(notes).launch(kernels.transpose, a)
    assert len(launch.outputs) == 1 and launch.outputs[0].dtype == np.dtype(dtype)
    np.testing.assert_array_equal(launch.outputs[0], a.T)


def test_parameters_and_several_operands(control, notes) -> None:
    backend = make(notes)
    a, bias = matrix(4, 6), matrix(1, 6)
    relu = backend.launch(kernels.bias_activation, a, bias, activation="relu").outputs[0]
    identity = backend.launch(kernels.bias_activation, a, bias, activation="identity").outputs[0]
    np.testing.assert_allclose(identity, a + bias, rtol=1e-6)
    np.testing.assert_allclose(relu, np.maximum(a + bias, 0), rtol=1e-6)
    assert control.compiles == 2


def test_outputs_stay_on_the_device_and_are_operands_as_they_are(control, notes) -> None:
    backend = make(notes)
    classes = backend.launch(kernels.argmax, matrix(9, 4)).outputs[0]
    assert isinstance(classes, pytorch.TorchArray) and classes.dtype == np.int32 and len(classes) == 9
    np.testing.assert_array_equal(np.asarray(classes), matrix(9, 4).argmax(axis=1))
    turned = backend.launch(kernels.transpose, matrix(9, 4)).outputs[0]
    back = backend.launch(kernels.transpose, turned.reshape((4, 9))).outputs[0]
    np.testing.assert_array_equal(np.asarray(back), matrix(9, 4))


def test_weights_are_taken_to_the_device_once(control, notes, packages, monkeypatch) -> None:
    moved = []
    to = packages.torch.Tensor.to
    monkeypatch.setattr(packages.torch.Tensor, "to", lambda self, device: moved.append(self.shape) or to(self, device))
    backend, bias = make(notes, warmup=1, iterations=1), matrix(1, 6)
    bias.setflags(write=False)
    for _ in range(3):
        backend.launch(kernels.bias_activation, matrix(4, 6), bias, activation="relu")
    assert moved.count((1, 6)) == 1 and moved.count((4, 6)) >= 3


def test_a_result_on_the_cpu_is_not_called_measured(control, notes) -> None:
    control.falls_back = True
    with pytest.raises(DeviceLost, match="its result is on cpu, so it did not run on the NeuronCore"):
        make(notes).launch(kernels.transpose, matrix(3, 4))


def test_a_torch_neuronx_without_trace_is_refused(packages, notes, monkeypatch) -> None:
    monkeypatch.delattr(packages.torch_neuronx, "trace")
    with pytest.raises(BackendUnavailable, match="has no `trace`"):
        make(notes)


def test_importing_finds_the_programs_of_the_environment(packages, notes, monkeypatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.delenv("PJRT_DEVICE", raising=False)
    make(notes)
    assert os.environ["PATH"].split(os.pathsep) == [str(Path(sys.executable).parent), "/usr/bin"]
    assert os.environ["PJRT_DEVICE"] == "NEURON"


def test_a_call_is_timed_until_its_output_is_on_the_host(control, notes, monkeypatch) -> None:
    now = [0.0]
    control.synchronise = lambda: now.__setitem__(0, now[0] + 0.001)
    monkeypatch.setattr(pytorch.time, "perf_counter", lambda: now[0])
    assert make(notes).launch(kernels.transpose, matrix(3, 4)).time.latency_us == pytest.approx(1000.0)


def test_a_kernel_is_timed_once_and_each_launch_runs(control, notes, monkeypatch) -> None:
    clock = iter(np.arange(1000) ** 2 * 1e-6)  # the n-th call takes 4n + 1 microseconds
    monkeypatch.setattr(pytorch.time, "perf_counter", lambda: float(next(clock)))
    backend = make(notes, warmup=3, iterations=4)
    compile_readings = 2  # the clock is read around the compilation too
    first = backend.launch(kernels.transpose, matrix(3, 4))
    assert control.calls == 3 + 4
    expected = [4 * (compile_readings / 2 + call) + 1 for call in range(3, 7)]
    assert first.time.latency_us == pytest.approx(np.percentile(expected, 50))
    assert first.time.latency_us_p99 == pytest.approx(np.percentile(expected, 99))
    second = backend.launch(kernels.transpose, matrix(3, 4) + 1)
    assert control.calls == 3 + 4 + 1 and control.compiles == 1
    assert (second.time.latency_us, second.time.latency_us_p99) == (first.time.latency_us, first.time.latency_us_p99)
    np.testing.assert_array_equal(second.outputs[0], (matrix(3, 4) + 1).T)
    assert backend.info.latency_kind == "measured" and backend.info.latency_label == "measured, host round trip"


def test_nothing_is_left_in_the_temporary_folder(control, notes, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "cache").mkdir()
    make(notes, tmp_path / "cache").launch(kernels.transpose, matrix(3, 4))
    make(notes).launch(kernels.transpose, matrix(3, 4))
    control.compile_error = RuntimeError("refused")
    with pytest.raises(CompileError):
        make(notes).launch(kernels.transpose, matrix(4, 3))
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]


def test_no_warm_up_still_leaves_the_first_call_out(control, notes) -> None:
    make(notes, warmup=0, iterations=1).launch(kernels.transpose, matrix(3, 4))
    assert control.calls == 2


@pytest.mark.parametrize("options", [{"warmup": -1}, {"iterations": 0}])
def test_senseless_counts_are_refused(control, notes, options) -> None:
    with pytest.raises(ValueError, match="at least 0 and 1"):
        make(notes, **options)


def test_timing_by_shape_alone(control, notes) -> None:
    launch = make(notes, iterations=2).time(
        kernels.bias_activation, ArraySpec((3, 4), ml_dtypes.bfloat16), ArraySpec((1, 4), np.float32)
    )
    assert launch.outputs == () and launch.time.latency_us > 0 and control.compiles == 1


def test_nothing_but_the_report_reaches_standard_output(control, notes, capfd) -> None:
    make(notes).launch(kernels.transpose, matrix(3, 4))
    print("the report")
    assert capfd.readouterr().out == "the report\n"


def test_a_second_run_compiles_nothing(control, notes, tmp_path) -> None:
    first = make(notes, tmp_path).launch(kernels.transpose, matrix(3, 4))
    second = make(notes, tmp_path).launch(kernels.transpose, matrix(3, 4))
    assert (control.compiles, control.loads) == (1, 1)
    np.testing.assert_array_equal(first.outputs[0], second.outputs[0])
    assert [note.split()[0] for note in notes] == ["compiling", "compiled"]
    assert "transpose [3, 4] float32 for trn2" in notes[0]


@pytest.mark.parametrize(
    "change",
    [
        lambda backend, _: backend.launch(kernels.transpose, matrix(4, 3)),
        lambda backend, _: backend.launch(kernels.transpose, matrix(3, 4, dtype=np.float16)),
        lambda backend, _: (
            setattr(backend, "info", replace(backend.info, target="trn3"))
            or backend.launch(kernels.transpose, matrix(3, 4))
        ),
        lambda backend, patch: (
            patch.setattr(compiled, "package_versions", lambda: {"neuronx-cc": "9"})
            or backend.launch(kernels.transpose, matrix(3, 4))
        ),
        lambda backend, patch: (
            patch.setattr(compiled, "find_source", lambda kernel: compiled.KernelSource("transpose", "other source"))
            or backend.launch(kernels.transpose, matrix(3, 4))
        ),
        lambda backend, patch: (
            patch.setenv("NEURON_CC_FLAGS", "-O1") or backend.launch(kernels.transpose, matrix(3, 4))
        ),
    ],
    ids=["shape", "dtype", "target", "versions", "source", "flags"],
)
def test_what_changes_the_program_is_compiled_anew(control, notes, tmp_path, monkeypatch, change) -> None:
    make(notes, tmp_path).launch(kernels.transpose, matrix(3, 4))
    change(make(notes, tmp_path), monkeypatch)
    assert control.compiles == 2


def test_a_cached_module_that_does_not_load_is_compiled_anew(control, notes, tmp_path, packages, monkeypatch) -> None:
    make(notes, tmp_path).launch(kernels.transpose, matrix(3, 4))

    def refuse(path):
        raise RuntimeError("version mismatch")

    monkeypatch.setattr(packages.torch.jit, "load", refuse)
    make(notes, tmp_path).launch(kernels.transpose, matrix(3, 4))
    assert control.compiles == 2
    assert any("compiled anew: version mismatch" in note for note in notes)
    assert not any("not cached" in note for note in notes)  # it took the place of the old one


def test_a_cache_that_cannot_be_written_costs_a_warning_only(control, notes, tmp_path) -> None:
    control.save_error = "PytorchStreamWriter failed writing file data/0: file write failed"
    launch = make(notes, tmp_path).launch(kernels.transpose, matrix(3, 4))
    np.testing.assert_array_equal(launch.outputs[0], matrix(3, 4).T)
    assert any("not cached" in note and "file write failed" in note for note in notes)
    assert [path.name for path in tmp_path.iterdir()] == ["locks"]


def test_a_kernel_inside_a_function_is_run_and_not_cached(control, notes, tmp_path) -> None:
    import nki

    @nki.jit
    def local(a):
        return kernels.transpose(a)

    for _ in range(2):
        make(notes, tmp_path).launch(local, matrix(3, 4))
    assert control.compiles == 2 and list(tmp_path.iterdir()) == []


COMPILER_MESSAGE = """Traceback (most recent call last):
  File "/opt/compiler.py", line 12, in run
ERROR: something general
2026-11-20 12:00:00 [NCC_EBVF030] The number of instructions generated exceeds the limit.
Please open a ticket."""


def test_a_compile_error_is_one_line_and_leaves_no_entry(control, notes, tmp_path, capfd) -> None:
    control.compile_error = RuntimeError(COMPILER_MESSAGE)
    with pytest.raises(CompileError) as caught:
        make(notes, tmp_path).launch(kernels.transpose, matrix(3, 4))
    message = str(caught.value)
    assert "transpose on trn2: the compiler failed: 2026-11-20 12:00:00 [NCC_EBVF030]" in message
    assert "\n" not in message and exit_status(caught.value) == BAD_USAGE
    log = tmp_path / "last-failure.log"
    assert str(log) in message and "compiler says why" in log.read_text() and "Please open a ticket" in log.read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["last-failure.log", "locks"]
    assert capfd.readouterr().out == ""


def test_a_compile_error_without_words_tells_what_was_printed(control, notes) -> None:
    control.compile_error = RuntimeError("")
    with pytest.raises(CompileError, match="ERROR: compiler says why"):
        make(notes).launch(kernels.transpose, matrix(3, 4))


def test_a_kernels_own_check_is_told(control, notes) -> None:
    with pytest.raises(CompileError, match=r"transpose on trn2: .*\(3, 4, 5\)"):
        make(notes).launch(kernels.transpose, matrix(3, 4, 5))


@pytest.mark.parametrize(
    ("message", "kind", "status"),
    [
        ("nrt_execute failed\nNRT Error NRT_EXEC_HW_ERR_NC_UE(1202): parity", DeviceLost, NO_BACKEND),
        ("NRT_EXEC_UNIT_UNRECOVERABLE", DeviceLost, NO_BACKEND),
        ("ERROR NRT:nrt_allocate_neuron_cores NeuronCore(s) not available - Requested:nc1-nc1", DeviceLost, NO_BACKEND),
        ("NRT Error NRT_EXEC_OOB(1006): Failed to execute model", ExecutionError, BAD_USAGE),
        ("NRT_EXEC_COMPLETED_WITH_NUM_ERR", ExecutionError, BAD_USAGE),
    ],
)
def test_errors_of_the_runtime(control, notes, message, kind, status) -> None:
    backend = make(notes)
    control.execution_error = RuntimeError(message)
    with pytest.raises(kind) as caught:
        backend.launch(kernels.transpose, matrix(3, 4))
    assert exit_status(caught.value) == status
    assert message.splitlines()[-1][:20] in str(caught.value) and "\n" not in str(caught.value)


def test_a_device_that_disappears_in_the_middle_of_a_run(control, notes, monkeypatch) -> None:
    backend = make(notes)
    backend.launch(kernels.transpose, matrix(3, 4))
    monkeypatch.setattr(environment, "neuron_devices", lambda: ())
    control.execution_error = RuntimeError("Could not open the nd0")
    with pytest.raises(DeviceLost, match=r"disappeared .* while transpose ran: Could not open the nd0") as caught:
        backend.launch(kernels.transpose, matrix(3, 4))
    assert exit_status(caught.value) == NO_BACKEND


def test_a_device_that_disappears_while_compiling(control, notes, monkeypatch) -> None:
    backend = make(notes)
    monkeypatch.setattr(environment, "neuron_devices", lambda: ())
    control.compile_error = RuntimeError("Failed to initialize devices, error:5")
    with pytest.raises(DeviceLost, match="Failed to initialize devices"):
        backend.launch(kernels.transpose, matrix(3, 4))


@pytest.mark.parametrize("names", [("graph_0a1b.neff",), ("a.neff", "b.neff"), ()])
def test_the_neff_of_a_kernel_is_kept_for_neuron_bench(control, notes, tmp_path, monkeypatch, names) -> None:
    control.neff_names = names
    monkeypatch.setenv("PATH", f"{STAND_INS / 'tools'}{os.pathsep}{os.environ['PATH']}")
    for _ in range(2):  # compiled, then from the cache
        time = make(notes, tmp_path, device_times=True).launch(kernels.transpose, matrix(3, 4)).time
        assert (time.device_us, time.device_us_p99) == ((16.0, 17.0) if len(names) == 1 else (None, None))
    told = "is neuron-bench's" if len(names) == 1 else "needs the NEFF, which is not in the cache"
    assert sum(told in note for note in notes) == 2 and control.compiles == 1


def test_times_on_the_device_are_told_to_be_of_the_other_way(control, notes) -> None:
    launch = make(notes, device_times=True).launch(kernels.transpose, matrix(3, 4))
    assert launch.time.device_us is None and any(
        "no time on the device: PyTorch NeuronX tells none; neuron-bench needs the NEFF" in note for note in notes
    )


def test_flops_and_bytes_are_counted_once(control, notes) -> None:
    asked = []

    def count(kernel, *specs, **parameters):
        asked.append((kernel, specs, parameters))
        return LaunchTime(1.0, flops=42, hbm_bytes=1000, bound_by="tensor", mfu=0.5)

    backend = make(notes, counter=count)
    for _ in range(2):
        launch = backend.launch(kernels.transpose, matrix(3, 4))
        time = launch.time
        assert (time.flops, time.hbm_bytes, time.bound_by, time.mfu) == (42, 1000, None, None)
    assert asked == [(kernels.transpose, (ArraySpec((3, 4), np.dtype(np.float32)),), {})]


@pytest.mark.parametrize("error", [KernelError("refused"), SimulatorDied("killed"), SimulatorFault("a fault")])
def test_a_count_that_fails_is_told_and_no_more(control, notes, error) -> None:
    def count(kernel, *specs, **parameters):
        raise error

    launch = make(notes, counter=count).launch(kernels.transpose, matrix(3, 4))
    assert (launch.time.flops, launch.time.hbm_bytes) == (0, 0)
    assert any(f"flops and bytes are not counted: {error}" in note for note in notes)


def test_a_session_gives_the_golden_answers(control, notes, tmp_path) -> None:
    random = np.random.default_rng(0)
    network = Network(
        "two",
        FeatureInput(20),
        (Dense("hidden", 20, 30, activation="relu"), Dense("out", 30, 5), Softmax("softmax")),
        tuple("abcde"),
    )
    shapes = network.tensor_shapes()
    model = Model(
        network, {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}, {}
    )
    x = random.standard_normal((70, 20)).astype(np.float32)
    result = Session(model, make(notes, tmp_path), batch_size=64).run(x)
    golden = run_network(network, model.tensors, x)
    np.testing.assert_array_equal(result.classes, golden.probabilities.argmax(axis=1))
    np.testing.assert_allclose(result.probabilities, golden.probabilities, atol=1e-5)
    assert result.total_us == pytest.approx(sum(layer.latency_us for layer in result.layers))
    assert all(layer.latency_us_p99 is not None and layer.mfu is None for layer in result.layers)


# ---- two processes ----

COMPILE_ONE = """
import sys
sys.path[:0] = [sys.argv[1]]
from pathlib import Path
import numpy as np
from trninfer import kernels
from trninfer.kernels import nki_source
from trninfer.runtime.neuron import environment, pytorch_backend as pytorch
from trninfer.runtime.neuron.compile_cache import CompileCache
environment.neuron_devices = lambda: ("/dev/neuron0",)
notes = []
backend = pytorch.PyTorchBackend("trn2", cache=CompileCache(Path(sys.argv[2]), notes.append), progress=notes.append)
launch = backend.launch(kernels.transpose, np.ones((3, 4), np.float32))
assert launch.outputs[0].shape == (4, 3)
print(notes, file=sys.stderr)
"""


def test_two_processes_compile_a_kernel_once(tmp_path) -> None:
    log = tmp_path / "compilations"
    variables = {
        **os.environ,
        "STAND_IN_COMPILE_LOG": str(log),
        "STAND_IN_COMPILE_SECONDS": "1.5",
        "TRNINFER_BACKEND": "sim",
    }
    command = [sys.executable, "-c", COMPILE_ONE, str(STAND_INS), str(tmp_path / "cache")]
    processes = [subprocess.Popen(command, env=variables, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    errors = [process.communicate(timeout=60)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], errors
    assert len(log.read_text().splitlines()) == 1
    assert any("waiting for another process that compiles transpose" in text for text in errors)

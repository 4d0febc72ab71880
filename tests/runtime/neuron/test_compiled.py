"""The shared part of both ways to the chip: compiling, caching and timing once, tested with a way that computes on the
simulator."""

from __future__ import annotations

import inspect
import itertools
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from neuron_stand_ins import noting_options
from trninfer import kernels
from trninfer.runtime.backend import ArraySpec, KernelError
from trninfer.runtime.neuron import environment, neff
from trninfer.runtime.neuron.compiled import (
    CompiledKernel,
    CompiledKernels,
    Executable,
    KernelEstimate,
    RunOptions,
    walk,
)
from trninfer.runtime.neuron.device_time import DeviceTime, DeviceTimingError
from trninfer.runtime.neuron.errors import CompileError, CompilerFailed, CoreInUse, DeviceLost, ExecutionError
from trninfer.runtime.neuron.jobs import Job
from trninfer.runtime.neuron.kernel_source import find_source
from trninfer.runtime.simulated import SimulatedBackend

X = np.arange(6, dtype=np.float32).reshape(2, 3)
TRANSPOSE = kernels.kernel("transpose")  # the attribute is the module if another test imported that first


class Way(CompiledKernels):
    """Compiles to a file with the job's label; calls take 1, 2, 3, ... us. `fault` is raised at a given step."""

    way = "test"

    def __init__(self, options: RunOptions | None = None, **fault: Exception) -> None:
        super().__init__("trn2", options)
        self.fault = fault
        self.steps: list[str] = []
        self._clock = itertools.count(1)

    def _step(self, name: str) -> None:
        self.steps.append(name)
        if name in self.fault:
            raise self.fault[name]

    def _compile(self, job: Job, walked: KernelEstimate, workdir: Path, log: Path) -> CompiledKernel:
        log.write_text("a warning\nerror: the printed one\n")
        self._step("compile")

        def write(folder: Path) -> None:
            (folder / "label").write_text(job.label)

        return CompiledKernel(write, lambda: self._loaded("load"), 2.5, 3 << 29)

    def _loaded(self, step: str) -> str:
        self._step(step)
        return step

    def _load(self, job: Job, walked: KernelEstimate, folder: Path) -> str:
        assert (folder / "label").read_text() == job.label
        return self._loaded("load cached")

    def _call(self, executable: Executable, operands: Any) -> tuple[tuple[Any, ...], float]:
        self._step("call")
        launch = SimulatedBackend("trn2").launch(executable.job.kernel, **operands, **executable.job.parameters)
        return launch.outputs, float(next(self._clock))

    def _device_time(self, executable: Executable, operands: Any) -> DeviceTime:
        self._step("device")
        return DeviceTime(0.5, 0.75, "a profiler")

    def _tensors(self, executable: Executable) -> dict[str, Any]:
        return {"loaded": executable.loaded}


@pytest.fixture(autouse=True)
def device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "neuron_devices", lambda: ("/dev/neuron0",))


@pytest.fixture
def options(notes: list[str], tmp_path: Path) -> Callable[..., RunOptions]:
    return partial(noting_options, notes, tmp_path / "cache")


def test_a_kernel_is_compiled_and_timed_once_for_its_shapes_and_arguments(options) -> None:
    way = Way(options())
    for _ in range(2):
        np.testing.assert_array_equal(way.launch(TRANSPOSE, X).outputs[0], X.T)
    assert way.steps == ["compile", "load", "call", "call", "call", "call"]  # one launch, two timed calls, one launch
    way.launch(TRANSPOSE, X.T.copy())
    way.launch(kernels.bias_activation, X, X[:1], activation="relu")
    way.launch(kernels.bias_activation, X, X[:1], activation="gelu")
    assert way.steps.count("compile") == 4


def test_another_process_loads_what_is_cached(options, notes: list[str]) -> None:
    Way(options()).launch(TRANSPOSE, X)
    assert notes == [
        "compiling transpose [2, 3] float32 for trn2",
        "compiled transpose [2, 3] float32 for trn2 in 2 s, 1.5 GiB",
    ]
    second = Way(options())
    second.launch(TRANSPOSE, X)
    assert second.steps[0] == "load cached" and len(notes) == 2
    (compilation,) = second.compilations
    assert compilation.is_cached and compilation.tensors == {"loaded": "load cached"} and compilation.error is None


def test_kernel_that_cannot_be_loaded_is_recompiled(options, notes: list[str]) -> None:
    Way(options()).launch(TRANSPOSE, X)
    again = Way(options(), **{"load cached": RuntimeError("NEFF of another version")})
    again.launch(TRANSPOSE, X)
    assert again.steps[:3] == ["load cached", "compile", "load"]
    assert (
        "transpose: the cached version cannot be loaded, so the kernel is compiled again: NEFF of another version"
        in notes
    )
    lost = Way(options(), **{"load cached": RuntimeError("NRT Error NRT_EXEC_HW_ERR_NC_UE(1202): parity")})
    with pytest.raises(DeviceLost, match="NRT_EXEC_HW_ERR_NC_UE"):
        lost.launch(TRANSPOSE, X)
    Way(options()).launch(TRANSPOSE, X)  # a lost chip does not affect it


@pytest.mark.parametrize(("warmup", "iterations", "calls", "median"), [(0, 1, 2, 2.0), (1, 3, 4, 3.0), (3, 4, 7, 5.5)])
def test_times_are_of_the_calls_after_the_warm_up(
    options, warmup: int, iterations: int, calls: int, median: float
) -> None:
    """The first call, whose outputs are returned, is the first warm-up call."""
    way = Way(options(warmup=warmup, iterations=iterations))
    time = way.launch(TRANSPOSE, X).time
    assert way.steps.count("call") == calls
    last = range(calls - iterations + 1, calls + 1)
    assert (time.latency_us, time.latency_us_p99) == (median, np.percentile(last, 99))
    assert time.hbm_bytes == 2 * X.nbytes and time.device_us is None


def test_times_on_the_device_are_asked_for(options, notes: list[str]) -> None:
    time = Way(options(device_times=True)).launch(TRANSPOSE, X).time
    assert (time.device_us, time.device_us_p99, time.device_by) == (0.5, 0.75, "a profiler")
    failing = Way(options(device_times=True), device=DeviceTimingError("no profile"))
    assert failing.launch(TRANSPOSE, X).time.device_us is None
    assert notes[-1] == "transpose: no time on the device: no profile"


def test_timing_by_shapes_alone_has_whole_numbers_for_indices(options) -> None:
    launch = Way(options()).time(TRANSPOSE, ArraySpec((4, 5), np.float32))
    assert launch.outputs == () and launch.time.latency_us == 2.5


def test_compiler_error_is_one_line_that_names_the_log(options, tmp_path: Path) -> None:
    way = Way(options(), compile=CompilerFailed("[NCC_EBVF030] The number of instructions exceeds the limit."))
    with pytest.raises(CompileError) as caught:
        way.launch(TRANSPOSE, X)
    text = str(caught.value)
    assert text.startswith("transpose on trn2: the compiler failed: [NCC_EBVF030] The number of instructions")
    assert text.endswith(f"(its output: {tmp_path / 'cache' / 'last-failure.log'})") and "\n" not in text
    assert "error: the printed one" in caught.value.log
    (compilation,) = way.compilations
    assert compilation.error == text and compilation.log == caught.value.log


@pytest.mark.parametrize(
    ("step", "error", "kind"),
    [
        ("compile", RuntimeError("NRT Error NRT_EXEC_OOB(1006): no"), ExecutionError),
        ("load", RuntimeError("NRT Error NRT_LOAD_NOT_ENOUGH_NC(9): no core is free"), CoreInUse),
        ("compile", DeviceLost("gone"), DeviceLost),
        ("compile", CompilerFailed("NRT Error NRT_EXEC_HW_ERR_NC_UE(1202): parity"), DeviceLost),
    ],
)
def test_a_chip_that_fails_is_no_compiler_that_does(options, step: str, error: Exception, kind: type) -> None:
    with pytest.raises(kind):
        Way(options(), **{step: error}).launch(TRANSPOSE, X)


def test_operands_that_a_kernel_refuses_are_refused_before_anything_is_compiled(options) -> None:
    way = Way(options())
    with pytest.raises(KernelError, match=r"^transpose on trn2: .*\(2, 3, 1\)"):
        way.launch(TRANSPOSE, X[:, :, None])
    with pytest.raises(KernelError, match=r"^bias_activation: its argument parameters contains a list"):
        way.launch(kernels.bias_activation, X, X[:1], activation="clip", parameters=[0.0])
    assert not way.steps


@pytest.mark.parametrize(("warmup", "iterations"), [(-1, 1), (0, 0)])
def test_options_that_time_nothing(warmup: int, iterations: int) -> None:
    with pytest.raises(
        ValueError, match=rf"^warmup must be at least 0 and iterations at least 1, got {warmup} and {iterations}$"
    ):
        Way(RunOptions(warmup=warmup, iterations=iterations))


def test_a_kernel_is_walked_for_its_results_and_its_counts() -> None:
    def walked(kernel: Any, *shapes: tuple[int, ...]) -> KernelEstimate:
        names = inspect.signature(kernel).parameters
        operands = {name: ArraySpec(shape, np.float32) for name, shape in zip(names, shapes)}
        return walk(Job(kernel, find_source(kernel), operands, {}, "trn2"))

    classes = walked(kernels.argmax, (4, 10))
    assert classes.results == (((4,), np.dtype(np.int32)),)
    assert classes.hbm_bytes >= (4 * 10 + 4) * 4
    product = walked(kernels.matmul_tiled, (128, 128), (128, 512))
    assert product.results == (((128, 512), np.dtype(np.float32)),) and product.flops == 2 * 128 * 128 * 512


@pytest.mark.parametrize(
    ("way", "hows"), [("torchneuron", ["alone", "front end of NKI 0.6"]), ("nki.runtime", ["front end of NKI 0.6"])]
)
def test_a_refused_kernel_is_compiled_in_other_ways(way: str, hows: list[str], options, monkeypatch) -> None:
    """To find out what rejects it: here, everything except the front end of NKI 0.6 does."""
    program = (
        "import os, pathlib, sys\n"
        "if os.environ.get('NKI_COMPILER_FRONTEND') != 'custom': sys.exit('error: [NCC_X] no')\n"
        "pathlib.Path(os.environ['NKI_ARTIFACTS_DIR'], os.environ['NEURON_PLATFORM_TARGET_OVERRIDE'] + '.neff').touch()"
    )
    monkeypatch.setattr(neff, "python_command", lambda module, function: [sys.executable, "-S", "-E", "-c", program])
    backend = Way(options())
    monkeypatch.setattr(backend, "way", way)
    attempts = backend.compile_otherwise(TRANSPOSE, X)
    assert [attempt.how for attempt in attempts] == hows
    assert [attempt.error for attempt in attempts] == ["error: [NCC_X] no"] * (len(hows) - 1) + [None]

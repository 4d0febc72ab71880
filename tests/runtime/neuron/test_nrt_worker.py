"""The program that runs NEFFs, run in this process: its messages, tensors and views, on a stand-in for nki.runtime."""

from __future__ import annotations

import io
import json
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from trninfer.runtime.neuron.jobs import array_type
from trninfer.runtime.neuron.messages import serve
from trninfer.runtime.neuron.nrt_worker import Core, stated_type

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


class Tensor:
    """A tensor of nki.runtime; `made` lists the existing ones."""

    made: list[Tensor] = []  # noqa: RUF012

    def __init__(self, tensor_ref: bytearray, shape: tuple[int, ...], dtype: np.dtype, name: str | None = None) -> None:
        self.tensor_ref, self.shape, self.dtype, self.name = tensor_ref, shape, dtype, name
        self.made.append(self)

    @classmethod
    def from_numpy(cls, array: np.ndarray, name: str) -> Tensor:
        return cls(bytearray(array.tobytes()), array.shape, array.dtype, name)

    def write_from_numpy(self, array: np.ndarray) -> None:
        assert array.nbytes == len(self.tensor_ref)
        self.tensor_ref[:] = array.tobytes()

    def numpy(self) -> np.ndarray:
        return np.frombuffer(bytes(self.tensor_ref), f"V{self.dtype.itemsize}").reshape(self.shape)


def info(shape: tuple[int, ...], itemsize: int, **more: Any) -> SimpleNamespace:
    return SimpleNamespace(shape=list(shape), size=int(np.prod(shape)) * itemsize, **more)


class Doubling:
    """A model that doubles `x`, and declares its result as bytes of a different shape."""

    input_tensors_info = {"x": info((2, 3), 4, dtype="float32")}  # noqa: RUF012
    output_tensors_info = {"y": info((6,), 4, dtype="|V4"), "z": info((1,), 2, dtype="bfloat16")}  # noqa: RUF012

    @classmethod
    def load_from_neff(cls, path: str) -> Doubling:
        if path != "good.neff":
            raise RuntimeError("NRT Error NRT_FAILURE(6): Failed to load model")
        return cls()

    def __call__(self, inputs: dict[str, Tensor], outputs: dict[str, Tensor]) -> None:
        assert inputs["x"].shape == (2, 3) and outputs["y"].shape == (6,)
        doubled = np.frombuffer(bytes(inputs["x"].tensor_ref), np.float32) * 2
        outputs["y"].write_from_numpy(doubled)

    def benchmark(self, inputs, outputs, warmup_iter: int, benchmark_iter: int, mode: str) -> SimpleNamespace:
        assert mode == "device" and warmup_iter == 4
        return SimpleNamespace(durations_ms=[0.5] * benchmark_iter)


@pytest.fixture(autouse=True)
def runtime(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("nki.runtime")
    module.SpikeModel, module.SpikeTensor = Doubling, Tensor
    monkeypatch.setitem(sys.modules, "nki.runtime", module)
    monkeypatch.setattr(Tensor, "made", [])
    return module


def asked(*messages: tuple[dict[str, Any], bytes]) -> list[tuple[dict[str, Any], bytes]]:
    """Return the answers to messages, each with the bytes that follow it."""
    requests, answers = io.BytesIO(), io.BytesIO()
    for fields, data in messages:
        requests.write(json.dumps({**fields, "bytes": len(data)}).encode() + b"\n" + data)
    requests.seek(0)
    serve(Core, requests, answers)
    answers.seek(0)
    found = []
    while line := answers.readline():
        answer = json.loads(line)
        found.append((answer, answers.read(answer.pop("bytes"))))
    return found


X = np.arange(6, dtype=np.float32)


def test_a_model_is_loaded_and_run_on_tensors_that_stay() -> None:
    form = {"shape": [6], "dtype": "float32"}
    (loaded, _), (x, _), (y, _), (ran, _), (_, values), (_, _), (again, _), (_, more) = asked(
        ({"op": "load", "path": "good.neff"}, b""),
        ({"op": "put", **form}, X.tobytes()),
        ({"op": "put", **form}, bytes(24)),
        ({"op": "run", "model": 1, "inputs": {"x": 2}, "outputs": {"y": 3}, "times": 3}, b""),
        ({"op": "read", "tensor": 3}, b""),
        ({"op": "write", "tensor": 2, **form}, (X + 1).tobytes()),
        ({"op": "run", "model": 1, "inputs": {"x": 2}, "outputs": {"y": 3}}, b""),
        ({"op": "read", "tensor": 3}, b""),
    )
    assert loaded == {
        "ok": True,
        "model": 1,
        "inputs": {"x": 24},
        "outputs": {"y": 24, "z": 2},
        "dtypes": {"z": "bfloat16"},
    }
    assert (x, y) == ({"ok": True, "tensor": 2}, {"ok": True, "tensor": 3})
    assert len(ran["us"]) == 3 and len(again["us"]) == 1 and all(us >= 0 for us in ran["us"])
    np.testing.assert_array_equal(np.frombuffer(values, np.float32), 2 * X)
    np.testing.assert_array_equal(np.frombuffer(more, np.float32), 2 * (X + 1))
    assert [tensor.shape for tensor in Tensor.made] == [(6,), (6,), (2, 3), (6,)]  # one view for each of the two runs


def test_times_on_the_device_are_microseconds() -> None:
    core = Core()
    core.load("good.neff")
    core.put([2, 3], "float32", bytes(24))
    core.put([6], "float32", bytes(24))
    assert core.benchmark(1, {"x": 2}, {"y": 3}, warmup=4, iterations=2) == {
        "us": [500.0, 500.0],
        "mean_us": None,
    }


def test_a_runtime_that_returns_only_the_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    core = Core()
    core.load("good.neff")
    core.put([2, 3], "float32", bytes(24))
    monkeypatch.setattr(Doubling, "benchmark", lambda self, **given: SimpleNamespace(mean_ms=0.25))
    assert core.benchmark(1, {"x": 2}, {}, warmup=4, iterations=2) == {"us": [], "mean_us": 250.0}


def test_worker_replies_with_the_exception_and_continues() -> None:
    (bad, _), (unknown, _), (gone, _), (hello, _) = asked(
        ({"op": "load", "path": "bad.neff"}, b""),
        ({"op": "fly"}, b""),
        ({"op": "read", "tensor": 7}, b""),
        ({"op": "hello"}, b""),
    )
    trace = bad.pop("traceback")
    assert bad == {"ok": False, "type": "RuntimeError", "error": "NRT Error NRT_FAILURE(6): Failed to load model"}
    assert "in load_from_neff" in trace and trace.endswith("NRT_FAILURE(6): Failed to load model\n")
    assert (unknown["type"], gone["type"]) == ("AttributeError", "KeyError")
    assert hello["ok"] and hello["library"] == Doubling.__module__


def test_a_tensor_that_is_freed_takes_its_views_along() -> None:
    core = Core()
    core.load("good.neff")
    core.put([6], "float32", bytes(24))
    core.put([6], "float32", bytes(24))
    core.run(1, {"x": 2}, {"y": 3})
    assert core._views.keys() == {2, 3}
    core.free(2)
    core.free(2)  # as in a finalizer
    assert core._views.keys() == {3} and list(core._tensors) == [3]


def test_an_environment_without_the_runtime_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nki.runtime", None)
    ((answer, _),) = asked(({"op": "hello"}, b""))
    assert not answer["ok"] and answer["type"] == "ModuleNotFoundError"


def test_dtypes_that_a_model_tells() -> None:
    assert array_type("bfloat16") == BFLOAT16 and array_type("int32") == np.int32
    assert stated_type(info((2, 3), 4, dtype=np.float32)) == np.float32
    assert stated_type(info((2, 3), 2, dtype="bfloat16")) == BFLOAT16
    for none in (info((2, 3), 4), info((2, 3), 4, dtype="float16"), info((2, 3), 4, dtype="float24")):
        assert stated_type(none) is None  # nothing, a different size, or no dtype

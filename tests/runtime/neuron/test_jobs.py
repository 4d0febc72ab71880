"""The job for a compiling process, and arguments that AWS's packages would misinterpret."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import Enum

import ml_dtypes
import numpy as np
import pytest
from trninfer import kernels
from trninfer.runtime.backend import ArraySpec, KernelError
from trninfer.runtime.neuron.jobs import Job, arguments_hash, check_arguments, read_job
from trninfer.runtime.neuron.kernel_source import find_source


class Mode(Enum):
    FAST = 1


@dataclass(frozen=True)
class Step:
    name: str
    sizes: tuple[int, ...]
    scale: float | None = None


@dataclass
class Loose:
    name: str


@dataclass(frozen=True)
class Hidden:
    name: str
    size: int = field(default=0, repr=False)


@dataclass(frozen=True)
class Uncompared:
    name: str
    size: int = field(default=0, compare=False)


@dataclass(frozen=True)
class LikeATensor:
    shape: tuple[int, ...]
    dtype: str


GOOD = {"n": 3, "x": 0.5, "s": "relu", "none": None, "mode": Mode.FAST, "steps": (Step("a", (1, -2)), (True, "b"))}


def test_arguments_that_are_fine() -> None:
    check_arguments("kernel", GOOD)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ([1], "contains a list; only numbers, strings, tuples"),
        ({"a": 1}, "contains a dict"),
        (np.int64(1), "contains a int64, which would be treated as a tensor"),
        (np.float64(1), "which would be treated as a tensor"),  # also a float
        (np.zeros(3), "contains a ndarray, which would be treated as a tensor"),
        (LikeATensor((1,), "float32"), "contains a LikeATensor, which would be treated as a tensor"),
        (Loose("a"), "contains a Loose, which is not frozen"),
        (Hidden("a"), "contains a Hidden whose size is excluded"),
        (Uncompared("a"), "contains a Uncompared whose size is excluded"),
        (Step("a", [1]), "contains a list"),
        ((1, (2, {3})), "contains a set"),
        (Step, "contains a type"),
    ],
)
def test_arguments_that_are_no_key(value, told) -> None:
    with pytest.raises(KernelError, match="kernel: its argument given ") as caught:
        check_arguments("kernel", {"fine": 1, "given": value})
    assert told in str(caught.value)


def test_a_job_arrives_as_it_was_sent() -> None:
    operands = {"a": ArraySpec((3, 4), np.float32), "b": ArraySpec((2,), ml_dtypes.bfloat16)}
    job = Job(kernels.transpose, find_source(kernels.transpose), operands, GOOD, "trn2")
    kernel, forms, parameters = read_job(json.loads(json.dumps(job.message())))
    assert kernel is kernels.transpose and parameters == GOOD
    assert forms == {"a": ((3, 4), "float32"), "b": ((2,), "bfloat16")}
    assert job.label == "transpose [3, 4] [2] float32 for trn2"


def test_key_depends_on_everything_that_is_compiled() -> None:
    def material(parameters: dict) -> str:
        operands = {"a": ArraySpec((3, 4), np.float32)}
        job = Job(kernels.transpose, find_source(kernels.transpose), operands, parameters, "trn2")
        return json.dumps(job.material("torchneuron", {"versions": {}}), sort_keys=True)

    assert len({material({"a": value}) for value in (-1, -2, 1, 1.0, True, "1", Step("a", (1,)), Step("a", (2,)))}) == 8


def test_arguments_whose_hash_is_the_same() -> None:
    assert arguments_hash({"a": -1}) == arguments_hash({"a": -2}) != arguments_hash({"a": 2})
    assert arguments_hash({"a": (Step("x", (-1,)),)}) == arguments_hash({"a": (Step("x", (-2,)),)})

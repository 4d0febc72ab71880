"""Tensors and NeuronCores for tests of the simulator, created in one line and filled with reproducible numbers."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import nki.language as nl
import numpy as np
from trninfer.simulator.instructions.core import NeuronCore, running
from trninfer.simulator.machine.chip import find_target


@contextmanager
def on(target: str = "trn2", functional: bool = True) -> Iterator[NeuronCore]:
    """Activate a NeuronCore that receives the instructions in the block."""
    with running(NeuronCore(find_target(target), functional)) as core:
        yield core


def new(shape: Any, dtype: str = nl.float32, buffer: Any = nl.sbuf, **options: Any) -> Any:
    return nl.ndarray(shape, dtype, buffer, **options)


def psum(shape: Any, dtype: str = nl.float32, **options: Any) -> Any:
    return nl.ndarray(shape, dtype, nl.psum, **options)


def hbm(shape: Any, dtype: str = nl.float32) -> Any:
    return nl.ndarray(shape, dtype, nl.shared_hbm)


def tile(values: Any, dtype: str = nl.float32, buffer: Any = nl.sbuf) -> Any:
    """Return a tensor with `values`, converting floats of any width to float32."""
    values = np.asarray(values)
    tensor = nl.ndarray(values.shape, dtype, buffer)
    tensor.write(values.astype(np.float32) if values.dtype.kind == "f" else values)
    return tensor


def indices(values: Any, dtype: str = nl.int32) -> Any:
    """Return numbers in SBUF that are used as addresses."""
    return tile(values, dtype)


def in_hbm(values: Any, dtype: str = nl.float32) -> Any:
    return tile(values, dtype, nl.shared_hbm)


def like(tensor: Any, dtype: str | None = None) -> Any:
    """Return an empty tile of the same shape."""
    return nl.ndarray(tensor.shape, dtype or tensor.dtype)


def uniform(*shape: int, low: float = -2.0, high: float = 2.0, seed: int = 0) -> Any:
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


def normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def integers(high: Any, *shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(0, high, shape)


def counted(*shape: int) -> Any:
    """Return 0, 1, 2, ... in a given shape."""
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)

"""Tensors and NeuronCores for tests of the simulator: made in a line, filled with numbers that repeat."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import nki.language as nl
import numpy as np
from trninfer.simulator.instructions.core import NeuronCore, running
from trninfer.simulator.machine.chip import find_target


@contextmanager
def on(target: str = "trn2", functional: bool = True) -> Iterator[NeuronCore]:
    """A NeuronCore that takes the instructions inside."""
    with running(NeuronCore(find_target(target), functional)) as core:
        yield core


def new(shape: Any, dtype: str = nl.float32, buffer: Any = nl.sbuf, **options: Any) -> Any:
    return nl.ndarray(shape, dtype, buffer, **options)


def psum(shape: Any, dtype: str = nl.float32, **options: Any) -> Any:
    return nl.ndarray(shape, dtype, nl.psum, **options)


def hbm(shape: Any, dtype: str = nl.float32) -> Any:
    return nl.ndarray(shape, dtype, nl.shared_hbm)


def tile(values: Any, dtype: str = nl.float32, buffer: Any = nl.sbuf) -> Any:
    """A tensor that holds `values`, floats of any width as float32."""
    values = np.asarray(values)
    tensor = nl.ndarray(values.shape, dtype, buffer)
    tensor.write(values.astype(np.float32) if values.dtype.kind == "f" else values)
    return tensor


def indices(values: Any, dtype: str = nl.int32) -> Any:
    """Numbers in SBUF that addresses are made of."""
    return tile(values, dtype)


def in_hbm(values: Any, dtype: str = nl.float32) -> Any:
    return tile(values, dtype, nl.shared_hbm)


def like(tensor: Any, dtype: str | None = None) -> Any:
    """An empty tile of the same shape."""
    return nl.ndarray(tensor.shape, dtype or tensor.dtype)


def uniform(*shape: int, low: float = -2.0, high: float = 2.0, seed: int = 0) -> Any:
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


def normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def integers(high: Any, *shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(0, high, shape)


def counted(*shape: int) -> Any:
    """0, 1, 2, ... in a shape."""
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)

"""Adaptive average pooling as spelled out by torch.export, compared with ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import numpy_helper
from onnx_chain import Chain, assert_imports
from trninfer.models.errors import ModelError
from trninfer.models.importing import import_network
from trninfer.models.layers import Pool

SETTINGS = settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])


def windows(extent: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the pixels [size, most] of the windows along an axis, and a mask of the entries beyond each window."""
    starts = np.arange(size) * extent // size
    ends = -(-(np.arange(size) + 1) * extent // size)
    places = starts[:, None] + np.arange((ends - starts).max())
    return np.minimum(places, extent - 1), places >= ends[:, None]


def pool(chain: Chain, sides: tuple[int, int], sizes: tuple[int, int], wrong: str = "") -> None:
    """Return the nodes of a pool; `wrong`: the part that differs from a pool."""
    (rows, no_row), (columns, no_column) = (windows(*axis) for axis in zip(sides, sizes))
    shape = (*rows.shape, *columns.shape)
    places = np.stack(np.broadcast_arrays(rows[:, :, None, None], columns), axis=-1)
    if wrong == "places":
        places[0, 0, -1, -1] = 0
    chain.add("Transpose", perm=[2, 3, 0, 1])
    chain.add("GatherND", chain.constant(places))
    chain.add("Transpose", perm=[4, 5, 0, 1, 2, 3])
    for mask in (no_row[:, :, None, None], no_column):
        if mask.any():
            mask = np.roll(mask, 1, 0) if wrong == "mask" else mask
            chosen, zero = f"chosen{len(chain.weights)}", chain.constant(1.0 if wrong == "zero" else 0.0)
            chain.weights.append(numpy_helper.from_array(np.ascontiguousarray(mask), chosen))
            filled = chain.value
            chain.add("Where", zero, filled, first=chosen)
    if not (no_row.any() or no_column.any()):
        chain.add("ReduceMean", chain.constant([-3, -1]), keepdims=0)
        return
    whole, total = chain.value, ""
    for row in range(shape[1]):
        line = chain.add("Gather", chain.constant(row), first=whole, axis=3)
        for column in range(shape[3]):
            pixel = chain.add("Gather", chain.constant(column), first=line, axis=4)
            total = chain.add("Add", pixel, first=total) if total else pixel
    counted = (~no_row).sum(axis=1)[:, None] * (~no_column).sum(axis=1).astype(np.float32)
    counted = counted[:-1] if wrong == "counts" else counted + (wrong == "count")
    chain.add("Div", chain.constant(counted), first=total)


@SETTINGS
@given(sides=st.tuples(st.integers(1, 9), st.integers(1, 9)), sizes=st.tuples(st.integers(1, 7), st.integers(1, 7)))
def test_pools_of_any_size(sides: tuple[int, int], sizes: tuple[int, int], tmp_path: Path) -> None:
    chain = Chain(3, *sides)
    pool(chain, sides, sizes)
    chain.add("Flatten")
    assert len(assert_imports(chain, tmp_path).network.layers) <= 7  # no separate layer for each pixel


@pytest.mark.parametrize("wrong", ["places", "mask", "zero", "count", "counts"])
def test_gathers_that_are_not_a_pool_are_kept_or_refused(wrong: str, tmp_path: Path) -> None:
    chain = Chain(3, 8, 5)
    pool(chain, (8, 5), (3, 5), wrong)
    chain.add("Flatten")
    if wrong == "counts":
        with pytest.raises(ModelError, match="cannot be broadcast"):
            import_network(chain.save(tmp_path))
    else:
        network = assert_imports(chain, tmp_path).network
        assert not any(isinstance(layer, Pool) for layer in network.layers)

"""Numbers on a view and two views combined, as ONNX broadcasts them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx_chain import Chain, ends

FILES = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


@FILES
@given(
    op=st.sampled_from(["Add", "Sub", "Mul", "Div", "Max"]),
    shape=st.tuples(*[st.integers(1, 5)] * 3),
    pooled=st.sets(st.integers(1, 3), min_size=1),
    others=st.sets(st.integers(1, 3)),
    turned=st.booleans(),
)
def test_one_value_is_repeated_over_another(op, shape, pooled, others, turned: bool, tmp_path: Path) -> None:
    chain = Chain(*shape)
    chain.add("Add", chain.constant(1.5))
    x = chain.add("Abs")
    small = chain.add("ReduceMean", chain.constant(sorted(pooled)), first=x)
    large = chain.add("ReduceMax", chain.constant(sorted(others)), first=x) if others else x
    small = chain.add("Add", chain.constant(0.3), first=small)  # nothing near zero is divided by
    large = chain.add("Add", chain.constant(0.2), first=large)
    pair = (small, large) if turned else (large, small)
    chain.add(op, pair[1], first=pair[0])
    kept = [1 if axis in pooled & others else size for axis, size in enumerate(shape, 1)]
    ends(chain, int(np.prod(kept)), tmp_path)

"""Separate convolutions in float8_e4m3: their reference is their kernel's, and planes are contracted in pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trninfer.kernels.convolution import double_rows
from trninfer.runtime.backend import EIGHT_BITS
from trninfer.runtime.measure.float8_cases import Float8Convolution, float8_case
from trninfer.runtime.measure.kernel_bench import run_kernel, time_kernel
from trninfer.runtime.measure.kernel_cases import ShapeError, kernel_case
from trninfer.runtime.simulated import SimulatedBackend


def shape_of(**sizes: Any) -> dict[str, str]:
    return {key: str(size) for key, size in sizes.items()}


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from([1, 3, 16, 64, 127, 128, 129, 256, 300, 512]),
    st.sampled_from([1, 5, 128, 130, 256]),
    st.tuples(st.integers(5, 19), st.integers(5, 40)),
    st.sampled_from([(1, 0), (3, 1), (3, 0), (5, 2), (4, 1)]),
    st.sampled_from([(1, 1), (2, 1), (3, 2)]),
    st.sampled_from(["identity", "relu", "gelu", "sigmoid"]),
    st.sampled_from(["trn1", "trn2", "trn2", "trn3"]),
)
def test_convolutions_agree_with_their_reference(
    cin: int,
    cout: int,
    side: tuple[int, int],
    filters: tuple[int, int],
    batch: tuple[int, int],
    activation: str,
    target: str,
) -> None:
    sizes = {"cin": cin, "cout": cout, "h": side[0], "w": side[1], "k": filters[0], "padding": filters[1]}
    case = float8_case("conv2d", shape_of(**sizes, batch=batch[0], pool=batch[1], activation=activation))
    backend = SimulatedBackend(target)
    timed = run_kernel("conv2d", case, backend, EIGHT_BITS)
    assert timed.verification is not None and timed.verification.passed, timed.verification
    assert time_kernel("conv2d", case, backend, EIGHT_BITS).row == timed.row
    assert timed.row.output_shape == case.output_shape


@pytest.mark.parametrize(("cin", "k", "planes"), [(256, 1, 1), (256, 3, 9), (384, 3, 9 + 4), (128, 3, 4), (300, 1, 1)])
def test_tiles_are_contracted_in_twos_then_taps(cin: int, k: int, planes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def counted(tile: Any, apart: int) -> Any:
        calls.append(apart)
        return double_rows.doubled(tile, apart)

    monkeypatch.setattr("trninfer.kernels.convolution.sums.doubled", counted)
    case = float8_case("conv2d", shape_of(cin=cin, cout=64, h=8, w=8, k=k))
    run_kernel("conv2d", case, SimulatedBackend("trn2"), EIGHT_BITS)
    assert calls and len(calls) % (2 * planes) == 0 and min(calls) > 0  # the last piece may be split in two


def test_a_wrong_plane_or_scale_fails_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    case = float8_case("conv2d", shape_of(cin=256, cout=130, h=9, w=8, padding=1))
    backend = SimulatedBackend("trn2")

    def passes(tried: Any) -> bool:
        verification = run_kernel("conv2d", tried, backend, EIGHT_BITS).verification
        assert verification is not None
        return verification.passed

    class Rolled(Float8Convolution):
        def arrays(self, dtype: np.dtype[Any], seed: int = 0) -> tuple[np.ndarray, ...]:
            *others, scales = super().arrays(dtype, seed)
            return *others, scales * np.float32(1.3)

    assert passes(case)
    assert isinstance(case, Float8Convolution) and not passes(Rolled(**vars(case)))
    whole = double_rows.doubled
    monkeypatch.setattr("trninfer.kernels.convolution.sums.doubled", lambda tile, apart: whole(tile, apart - 1))
    assert not passes(case)


def test_twice_the_rate_of_bfloat16() -> None:
    sizes = shape_of(cin=256, cout=256, h=112, w=112, padding=1, form="direct")
    backend = SimulatedBackend("trn2")
    narrow = time_kernel("conv2d", float8_case("conv2d", sizes), backend, EIGHT_BITS).row.latency_us
    assert narrow < 0.55 * time_kernel("conv2d", kernel_case("conv2d", sizes), backend, "bfloat16").row.latency_us


def test_other_kernels_and_forms_are_refused_in_one_line() -> None:
    with pytest.raises(
        ShapeError, match=r"^matmul supports only 32-bit and 16-bit dtypes; use conv2d for float8_e4m3$"
    ):
        float8_case("matmul", shape_of(m=3, k=4, n=5))
    with pytest.raises(ShapeError, match="form is 'pairs'; float8_e4m3 supports only the direct form"):
        float8_case("conv2d", shape_of(cin=64, cout=3, h=9, w=9, form="pairs"))
    with pytest.raises(ShapeError, match="cin is missing"):
        float8_case("conv2d", shape_of(cout=3, h=9, w=9))

"""Layers that multiply 8-bit weights by 16-bit values: they use bfloat16 and minimal filtering if that is faster."""

from __future__ import annotations

from typing import Any

import pytest
from lowered import ALL, assert_right, convolution_of, decide, nodes_of
from random_networks import model_of, picture
from trninfer.kernels.convolution.forms import Form
from trninfer.lowering.passes import add_margins, choose_forms
from trninfer.lowering.passes.add_margins import with_wide_weights
from trninfer.lowering.passes.choose_forms import COMBINED_BYTES
from trninfer.models.layers import Conv2d, Dense, Flatten, Layer, Pool
from trninfer.models.network import Network
from trninfer.models.outputs import Output
from trninfer.runtime.backend import EIGHT_BITS
from trninfer.runtime.session import Session
from trninfer.runtime.simulated import SimulatedBackend

COMBINED = decide(forms=tuple((number, "pairs", size) for number in ALL for size in COMBINED_BYTES), fp8=ALL)


def pooled(channels: int, side: tuple[int, int], activation: str = "relu") -> Network:
    """Return a 3x3 convolution of a pool's values, which are bfloat16, and one of 8-bit values."""
    same = (1, 1, 1, 1)
    layers: list[Layer] = [
        Conv2d("stem", 3, channels, (1, 1), activation="relu"),
        Pool("pool", "max", (3, 3), (2, 2), padding=same),
        Conv2d("mixed", channels, channels, (3, 3), same, activation=activation),
        Conv2d("narrow", channels, channels, (3, 3), same, activation="relu"),
        Conv2d("end", channels, 8, (1, 1)),
        Pool("mean", "average", side, (1, 1)),
        Flatten("flat"),
        Dense("last", 8, 4),
    ]
    return Network("n", picture(3, 2 * side[0], 2 * side[1]), tuple(layers), (), Output("values"))


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize(("channels", "side"), [(66, (6, 7)), (140, (9, 6)), (128, (5, 5))])
@pytest.mark.parametrize("activation", ["relu", "silu"])
def test_combined_filters_in_bfloat16_are_right_beside_8_bits(
    channels: int, side: tuple[int, int], activation: str, batch: int
) -> None:
    network = pooled(channels, side, activation)
    plan = assert_right(network, COMBINED, batch, EIGHT_BITS, forms=(Form.PAIRS,))
    mixed, narrow = (convolution_of(plan.graph, name) for name in ("mixed", "narrow"))
    assert mixed.form is Form.PAIRS and not mixed.weights.is_fp8 and mixed.is_fp8
    assert narrow.form is Form.DIRECT and narrow.weights.is_fp8
    (node,) = nodes_of(plan.graph, "narrow")
    assert with_wide_weights(plan.graph, node) is None


@pytest.mark.slow
def test_they_are_taken_where_they_are_quicker(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    model = model_of(pooled(512, (28, 28)))

    def microseconds(folder: str) -> tuple[float, str]:
        monkeypatch.setenv("TRNINFER_CACHE", str(tmp_path / folder))
        session = Session(model, SimulatedBackend("trn2"), EIGHT_BITS, 1)
        result = session.time(1)
        forms = {layer.name: layer.form or "" for layer in result.layers}
        return result.total_us, forms["mixed"]

    chosen, form = microseconds("chosen")
    assert form.startswith("pairs") and "8-bit weights" not in form
    for module in (add_margins, choose_forms):
        monkeypatch.setattr(module, "with_wide_weights", lambda graph, node: None if node.has_fp8_weights else node)
    narrow, form = microseconds("narrow")
    assert "8-bit weights" in form and chosen < narrow

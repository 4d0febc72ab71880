"""Every kind of layer has all the required functions."""

from __future__ import annotations

import dataclasses
import typing

import numpy as np
import pytest
from trninfer.models.layers import LAYER_KINDS, Dense, Layer


@pytest.mark.parametrize("kind", LAYER_KINDS)
@pytest.mark.parametrize("piece", ["output_shape", "run"])
def test_every_kind_has_every_piece(kind: str, piece: str) -> None:
    assert getattr(LAYER_KINDS[kind], piece) is not getattr(Layer, piece), f"{kind} has no {piece}"


def test_kinds_have_names_of_their_own() -> None:
    assert sorted(layer.kind for layer in Layer.__subclasses__()) == sorted(LAYER_KINDS)


@pytest.mark.parametrize("kind", LAYER_KINDS)
def test_fields_can_be_read_from_json(kind: str) -> None:
    hints = typing.get_type_hints(LAYER_KINDS[kind])
    for field in dataclasses.fields(LAYER_KINDS[kind]):
        types = set(typing.get_args(hints[field.name])) - {...} or {hints[field.name]}
        assert types <= {int, float, str, bool}, f"{kind}.{field.name} is {hints[field.name]}"


def test_own_tensors_go_by_the_last_part_of_their_names() -> None:
    layer = Dense("a.b", 2, 3)
    tensors = {"a.b.weight": np.ones((2, 3)), "a.b.bias": np.zeros(3), "c.weight": np.ones(1)}
    assert layer.tensor_shapes() == {"a.b.weight": (2, 3), "a.b.bias": (3,)}
    own = layer.own_tensors(tensors)
    assert sorted(own) == ["bias", "weight"] and own["weight"] is tensors["a.b.weight"]

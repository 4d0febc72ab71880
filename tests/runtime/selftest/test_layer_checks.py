"""Layers of the self-test: every kind that can be launched separately, at a small and an odd size."""

from __future__ import annotations

import numpy as np
import pytest
from trninfer.models import layers
from trninfer.models.layers import LAYER_KINDS
from trninfer.runtime.selftest.layer_checks import LayerCase, cases

# Chains of single kernels, which the self-test checks separately, or layers without an operation.
ELSEWHERE = {"dense", "flatten"}
SMALL, ODD = (list(cases(number)) for number in (0, 1))


@pytest.mark.parametrize("made", [SMALL, ODD], ids=["small", "odd"])
def test_every_kind_of_layer_has_a_case_with_a_name_of_its_own(made: list[LayerCase]) -> None:
    assert {case.layer.kind for case in made} == set(LAYER_KINDS) - ELSEWHERE
    names = [case.name for case in made]
    assert len(names) == len(set(names))


def test_all_functions_and_operations_are_there_once_and_one_at_the_odd_size() -> None:
    functions = [case.layer.activation for case in SMALL if isinstance(case.layer, layers.Activation)]
    assert functions == list(layers.ACTIVATION_PARAMETERS)
    combined = [case for case in SMALL if isinstance(case.layer, layers.Combine)]
    assert [case.layer.operation for case in combined if len(set(case.shapes)) == 1] == list(layers.OPERATIONS)
    repeated = sum(len(set(case.shapes)) > 1 for case in combined)
    assert sum(isinstance(case.layer, (layers.Activation, layers.Combine)) for case in ODD) == 2 + repeated


def test_odd_sizes_are_beyond_the_partitions_and_no_multiple_of_them() -> None:
    for case in ODD:
        for shape in case.shapes:
            assert max(shape[1:]) > 128 and shape[1] % 128, case.name


def test_operands_are_positive_if_the_reference_requires_it() -> None:
    """The reference, evaluated on numbers of both signs, shows which layers need positive data."""
    random = np.random.default_rng(0)
    for case in SMALL:
        tensors = {name.split(".")[1]: np.ones(shape, np.float32) for name, shape in case.layer.tensor_shapes().items()}
        inputs = [random.standard_normal(shape).astype(np.float32) for shape in case.shapes]
        with np.errstate(all="ignore"):
            signed = np.isfinite(case.layer.run(tensors, *inputs)).all()
            positive = np.isfinite(case.layer.run(tensors, *(np.abs(x) + 0.5 for x in inputs))).all()
        assert positive, case.name
        if not signed:
            assert case.positive, case.name


@pytest.mark.parametrize("case", [*SMALL[:12], ODD[0], ODD[3]], ids=lambda case: f"{case.name} {case.shapes[0]}")
def test_a_case_is_one_launch_of_all_its_images(case: LayerCase) -> None:
    tensors = {name: np.ones(shape, np.float32) for name, shape in case.layer.tensor_shapes().items()}
    plan = case.plan(tensors, np.dtype(np.float32))
    (stage,) = plan.program.stages
    assert plan.images == stage.at_once == case.shapes[0][0] and plan.program.operations

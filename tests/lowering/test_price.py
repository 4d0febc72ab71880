"""Prices by the simulator's clock, and what is known of a launch before it is walked."""

import numpy as np
import pytest
from hypothesis import given, settings
from lowered import decided, pipeline_of
from random_networks import chains, conv, ending_in_dense, graphs, model_of
from trninfer.lowering.decisions import Decisions
from trninfer.lowering.price import Clock
from trninfer.models.network import Network

WIDE = ending_in_dense((64, 28, 28), [conv("a", 64, 128, 3), conv("b", 128, 128, 3), conv("c", 128, 128, 3)])


def least_and_walked(network: Network, images: int = 1, dtype: str = "float32") -> tuple[float, float]:
    """What is known of a launch of one pass by the prices of its operations, and its price as a whole."""
    model = model_of(network)
    clock = Clock("trn2", np.dtype(np.float32).itemsize if dtype == "float32" else 2)
    plan = decided(model, Decisions(), images, dtype)
    assert clock.least(plan.graph, images).nanoseconds == 0  # nothing is known yet
    for number in range(len(plan.graph.nodes)):
        clock.price(plan.graph, number, images)
    return clock.least(plan.graph, images).nanoseconds, clock.walk(plan.program, plan.layout).nanoseconds


@settings(max_examples=15, deadline=None)
@given(chains() | graphs())
def test_no_launch_is_quicker_than_the_least(network: Network) -> None:
    least, walked = least_and_walked(network)
    assert 0 < least <= walked


@pytest.mark.parametrize("images", [1, 3])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_least_is_near_where_the_tensor_engine_is_busy(images: int, dtype: str) -> None:
    least, walked = least_and_walked(WIDE, images, dtype)
    assert walked / 3 < least < walked


def test_prices_are_known_by_what_they_depend_on() -> None:
    clock = Clock("trn2", 4)
    graph = pipeline_of(model_of(WIDE)).lower(Decisions()).graph
    second, third = (clock.price(graph, number, 1) for number in (1, 2))
    assert second is third  # alike
    assert clock.price(graph, 1, 2).nanoseconds > second.nanoseconds

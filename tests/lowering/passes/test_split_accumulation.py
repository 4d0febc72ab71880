"""Sums to which the Tensor Engine adds a part of the banks: they are what the golden model computes."""

from collections.abc import Sequence

import ml_dtypes
import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from lowered import (
    ALL,
    applicable,
    assert_right,
    convolution_of,
    decide,
    decided,
    graph_of,
    nanoseconds,
    planned,
    tensor_spec,
)
from random_networks import conv, labels, picture
from trninfer import kernels, simulator
from trninfer.kernels.convolution.adding import Adding
from trninfer.lowering.decisions import Option, Question
from trninfer.lowering.graph import Graph, Node
from trninfer.lowering.passes.split_accumulation import split_accumulation
from trninfer.models.layers import Combine, Conv2d, Dense, Flatten, Layer, Pool
from trninfer.models.network import Network
from trninfer.runtime.layer_launches import specs_of
from trninfer.simulator.machine.chip import PARTITIONS

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def shared_sums(graph: Graph) -> list[Node]:
    """The nodes of whose addends the Tensor Engine adds a part."""
    return [node for node in graph.nodes if getattr(node.operation, "adding", Adding.VECTOR) is not Adding.VECTOR]


def sums(channels: Sequence[int], rows: int, columns: int, size: int = 1, activation: str = "relu") -> Network:
    """A stem, then for each number of channels a convolution of `size` and the sum of it and another."""
    layers: list[Layer] = [conv("stem", 3, channels[0], 3)]
    before, last = channels[0], "stem"
    for number, count in enumerate(channels):
        layers += [
            Conv2d(f"beside{number}", before, count, (1, 1), inputs=(last,)),
            Conv2d(f"own{number}", before, count, (size, size), (size // 2,) * 4, inputs=(last,)),
            Combine(f"sum{number}", "add", activation, inputs=(f"own{number}", f"beside{number}")),
        ]
        before, last = count, f"sum{number}"
    ends = (Pool("mean", "average", (rows, columns), (1, 1)), Flatten("flat"), Dense("dense", before, 4))
    return Network("n", picture(3, rows, columns), (*layers, *ends), labels(4))


@settings(max_examples=25)
@given(st.data())
def test_shared_sums_are_what_the_golden_model_computes(data: st.DataObject) -> None:
    """Also of packed images and rows, in passes of some of the images, in bands, and of several output tiles."""
    channels = data.draw(st.lists(st.sampled_from([5, 16, 40, 64, 128, 160]), min_size=1, max_size=3))
    rows, columns = data.draw(st.integers(5, 42)), data.draw(st.integers(5, 33))
    size = data.draw(st.sampled_from([1, 1, 3]))
    activation = data.draw(st.sampled_from(["relu", "relu", "identity", "silu"]))
    network = sums(channels, rows, columns, size, activation)
    batch = data.draw(st.sampled_from([1, 2, 3, 4, 7, 16]) if rows * columns < 400 else st.sampled_from([1, 2, 3, 4]))
    asked = decide(packs_rows=data.draw(st.booleans()), packed=data.draw(st.sampled_from([1, 2, 4])), sums=ALL)
    dtype, target = data.draw(st.sampled_from(["bfloat16", "float16"])), data.draw(st.sampled_from(["trn1", "trn2"]))
    at_once = data.draw(st.sampled_from([0, 1, 2]))
    plan = assert_right(
        network, applicable(network, asked, batch), batch, dtype, target=target, at_once=at_once, tolerance=4e-2
    )
    event(f"{len(shared_sums(plan.graph))} shared")


def test_banks_of_one_matmul_are_shared_and_of_others_the_last() -> None:
    def adding(network: Network, dtype: str = "bfloat16") -> dict[str, str]:
        asked: list[str] = []

        def last(question: Question) -> Option:
            asked.append(question.graph.nodes[question.number].name)
            return question.options[-1]

        nodes = shared_sums(split_accumulation(graph_of(network, dtype), last))
        assert [node.name for node in nodes] == asked
        return {node.name: str(getattr(node.operation, "adding", "")) for node in nodes}

    shared, last = str(Adding.SHARED), str(Adding.LAST)
    several = sums((16, PARTITIONS + 1, 20), 6, 6)  # the third has two input tiles
    assert adding(several) == {"own0": shared, "own1": shared, "own2": last}
    assert adding(sums((16, 20), 6, 6, size=3)) == {"own0": last, "own1": last}
    assert adding(sums((16, PARTITIONS + 1), 6, 6, size=3)) == {"own0": last}  # one tile of channels
    assert adding(sums((16, 20), 6, 6, activation="silu")) == adding(sums((16, 20), 6, 6), "float32") == {}


@pytest.mark.parametrize("rows", [6, 30, 42])
def test_the_tensor_engine_adds_to_the_last_bank_alone(rows: int) -> None:
    """One matmul more than where the Vector Engine adds to all of them, however many there are."""

    def matmuls(numbers: tuple[int, ...]) -> int:
        plan = decided(sums((40, 128), rows, 33, size=3), decide(sums=numbers), dtype="bfloat16")
        operands = {name: tensor_spec(spec) for name, spec in specs_of(plan, BFLOAT16).items()}
        run = simulator.run(kernels.kernel("run_network"), **operands, functional=False, program=plan.program)
        return sum(each.op == "nc_matmul" for each in run.program)

    assert matmuls(ALL) == matmuls(()) + 2  # sums


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_sums_are_shared_where_that_is_quicker(dtype: str) -> None:
    large = sums((PARTITIONS, PARTITIONS), 48, 48)
    plan = planned(large, 1, dtype)
    is_shared = convolution_of(plan.graph, "own1").adding is Adding.SHARED
    assert is_shared == (dtype == "bfloat16")
    alone, both = (nanoseconds(decided(large, decide(sums=each), dtype=dtype), dtype) for each in ((), ALL))
    assert both < alone if is_shared else both == alone

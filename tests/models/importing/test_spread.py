"""Views whose axes of one are repeated along those axes."""

from __future__ import annotations

from pathlib import Path

from onnx_chain import Chain, assert_imports


def test_one_feature_is_repeated_over_others(tmp_path: Path) -> None:
    """A duelling network: the value of a state, and what each action adds to the mean of all."""
    chain = Chain(7)
    chain.gemm(7, 5)
    advantages = chain.value
    mean = chain.add("ReduceMean", chain.constant([1]), first=advantages)
    centred = chain.add("Sub", mean, first=advantages)
    chain.value = "x"
    chain.gemm(7, 1)
    chain.add("Add", centred)
    assert assert_imports(chain, tmp_path).network.outputs == 5

"""A softmax inside a network whose input is also reshaped after it, compared with ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

from onnx_chain import Chain, ends


def test_a_gate_whose_input_is_reshaped_again_later_is_imported(tmp_path: Path) -> None:
    chain = Chain(1, 6, 5)
    value = chain.add("Relu")
    chain.add("Reshape", chain.constant([0, 30]))
    chain.add("Softmax", axis=1)
    chain.add("Reshape", chain.constant([0, 1, 6, 5]))
    chain.add("Mul", value)
    gated = chain.add("Flatten")
    chain.add("Flatten", first=value)
    chain.add("Concat", gated, axis=1)
    ends(chain, 60, tmp_path)

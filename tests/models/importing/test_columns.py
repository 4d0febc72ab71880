"""Concatenated tokens, compared with ONNX Runtime: class tokens, registers, and values of several layers."""

from pathlib import Path

import numpy as np
import pytest
from onnx_chain import Chain, assert_imports, ends, kinds
from trninfer.models.layers import ChannelSlice, Pad, Transpose


def tokens(chain: Chain) -> str:
    """Return the pixels of an image as tokens, [batch, 12, 6], as flattened by timm's PatchEmbed."""
    chain.conv((3, 6), (1, 1))
    chain.add("Reshape", chain.constant([1, 6, 12]))
    return chain.add("Transpose", perm=[0, 2, 1])


@pytest.mark.parametrize("count", [1, 4, 20])
def test_class_tokens_and_registers_before_those_of_an_image(count: int, tmp_path: Path) -> None:
    chain = Chain(3, 3, 4)
    image = tokens(chain)
    chain.add("Concat", image, first=chain.weight(1, count, 6), axis=1)
    chain.add("Add", chain.weight(1, 12 + count, 6))
    chain.add("LayerNormalization", chain.weight(6), chain.weight(6), axis=-1)
    imported = ends(chain, 6 * (12 + count), tmp_path, batch=1)
    assert not {Transpose, ChannelSlice} & set(kinds(imported)[:-3])


def test_tokens_of_several_layers(tmp_path: Path) -> None:
    chain = Chain(3, 3, 4)
    image = tokens(chain)
    other = chain.add("MatMul", chain.weight(6, 6), first=image)
    chain.add("Concat", chain.weight(1, 2, 6), other, chain.weight(1, 1, 6), first=image, axis=1)
    ends(chain, 27 * 6, tmp_path, batch=1)


def test_only_the_class_token(tmp_path: Path) -> None:
    chain = Chain(3, 3, 4)
    image = tokens(chain)
    chain.add("Concat", image, first=chain.weight(1, 1, 6), axis=1)
    chain.add("Gather", chain.constant(np.asarray(0)), axis=1)
    chain.add("Reshape", chain.constant([1, 6]))
    chain.gemm(6, 3)
    imported = assert_imports(chain, tmp_path, batch=1)
    assert Pad in kinds(imported) and Transpose not in kinds(imported)


def test_patches_after_the_class_token(tmp_path: Path) -> None:
    chain = Chain(3, 3, 4)
    image = tokens(chain)
    chain.add("Concat", image, first=chain.weight(1, 1, 6), axis=1)
    chain.add("Slice", *(chain.constant([each]) for each in (1, 13, 1)))
    chain.add("ReduceMean", chain.constant([1]), keepdims=0)
    chain.gemm(6, 3)
    assert_imports(chain, tmp_path, batch=1)

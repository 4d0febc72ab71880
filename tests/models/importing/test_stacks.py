"""Stacks of convolutions: maps, gates and slices are computed for each part separately, with the same answers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from lowered import assert_right
from onnx_chain import Chain, assert_imports
from trninfer.lowering.decisions import Decisions
from trninfer.models.files import Model
from trninfer.models.importing import Imported
from trninfer.models.layers import Activation, Affine, ChannelSlice, Combine, Conv2d


class Mixed(Chain):
    """Layers of MixNet."""

    def convs(self, parts: list[tuple[int, int]], kernels: list[int], groups: list[int]) -> list[str]:
        """Convolve slices of the value: (input and output channels), and the filter size and groups of each."""
        read, found, first = self.value, [], 0
        for (inputs, outputs), kernel, own in zip(parts, kernels, groups, strict=True):
            bounds = [self.constant(np.array([number], np.int64)) for number in (first, first + inputs, 1)]
            self.value = read
            if len(parts) > 1:
                self.add("Slice", *bounds)
            weight = self.weight(outputs, inputs // own, kernel, kernel)
            self.add("Conv", weight, kernel_shape=[kernel] * 2, pads=[kernel // 2] * 4, group=own)
            found.append(self.value)
            first += inputs
        return found

    def stack(self, values: list[str]) -> None:
        self.value, *more = values
        if more:
            self.add("Concat", *more, axis=1)

    def normalize(self, channels: int) -> None:
        positive = (self.constant(self.random.uniform(0.3, 1.5, channels).astype(np.float32)) for _ in range(2))
        self.add("BatchNormalization", next(positive), self.weight(channels), self.weight(channels), next(positive))

    def silu(self) -> None:
        before = self.value
        self.add("Sigmoid")
        self.add("Mul", before)

    def gate(self, channels: int) -> None:
        before = self.value
        self.add("GlobalAveragePool")
        for weight, function in ((self.weight(4, channels, 1, 1), "Relu"), (self.weight(channels, 4, 1, 1), "Sigmoid")):
            self.add("Conv", weight)
            self.add(function)
        self.add("Mul", before)


def mixnet(seed: int, sizes: list[int], kernels: list[int], projections: int) -> Chain:
    """Return two blocks; the depthwise filters of the second read different slices than those of the first."""
    chain = Mixed(3, 9, 8, seed=seed)
    chain.conv((3, 16), (3, 3), pads=[1] * 4)
    read, total = 16, sum(sizes)
    for _ in range(2):
        before = chain.value
        halves = [(read // 2, size) for size in (total // 2, total - total // 2)]
        chain.stack(chain.convs(halves, [1, 1], [1, 1]))
        chain.normalize(total)
        chain.silu()
        chain.stack(chain.convs([(size, size) for size in sizes], kernels, sizes))
        chain.normalize(total)
        chain.silu()
        chain.gate(total)
        inputs = [total // projections] * projections
        chain.stack(chain.convs([(size, 16 // projections) for size in inputs], [1] * projections, [1] * projections))
        chain.normalize(16)
        chain.add("Add", before)
    chain.add("GlobalAveragePool")
    chain.add("Flatten")
    chain.gemm(16, 4)
    return chain


def layers_of(imported: Imported, kind: type) -> list[str]:
    return [layer.name for layer in imported.network.layers if isinstance(layer, kind)]


CASES = [
    ([10, 10], [3, 5], 2),
    ([8, 6, 6], [3, 5, 7], 1),
    ([70, 70], [3, 5], 2),
    ([12, 5, 3], [1, 3, 5], 4),
    ([130, 14], [3, 5], 1),
]


@pytest.mark.parametrize(("seed", "case"), list(enumerate(CASES)))
def test_answers_stay(seed: int, case: tuple[list[int], list[int], int], tmp_path: Path) -> None:
    imported = assert_imports(mixnet(seed, *case), tmp_path)
    assert not layers_of(imported, Affine) and not layers_of(imported, Activation)
    model = Model(imported.network, imported.tensors, {})
    for batch in (1, 2, 3, 4, 7, 16):
        assert_right(model, Decisions(), batch, ("float32", "bfloat16", "float16")[(seed + batch) % 3])


def test_layers_read_the_parts(tmp_path: Path) -> None:
    """Each filter and each projection reads one part; only the first slices, of a value that is not a stack, remain."""
    network = assert_imports(mixnet(0, [70, 70], [3, 5], 2), tmp_path).network
    kept = [layer.inputs[0] for layer in network.layers if isinstance(layer, ChannelSlice)]
    assert len(kept) == 4 and len(set(kept)) == 2
    products = [layer for layer in network.layers if isinstance(layer, Combine) and layer.operation == "multiply"]
    assert len(products) == 4
    projections = [layer for layer in network.layers if isinstance(layer, Conv2d) and layer.in_channels == 140]
    # from both halves
    assert [layer.out_channels for layer in projections if layer.kernel_size == (1, 1)].count(16) == 2


def test_parts_that_others_read_keep_their_values(tmp_path: Path) -> None:
    chain = Mixed(3, 6, 5)
    parts = chain.convs([(2, 5), (1, 6)], [1, 1], [1, 1])
    chain.stack(parts)
    chain.add("Relu")
    wide, chain.value = chain.value, parts[1]
    chain.add("Concat", wide, axis=1)
    chain.add("GlobalAveragePool")
    chain.add("Flatten")
    chain.gemm(17, 4)
    imported = assert_imports(chain, tmp_path)
    assert layers_of(imported, Activation)


@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize("groups", [2, 8])
def test_a_stack_of_grouped_convolutions(kernel: int, groups: int, tmp_path: Path) -> None:
    """As in SKNet, whose branches read the same channels in groups."""
    chain = Mixed(8, 6, 5)
    found = []
    for _ in range(2):
        chain.value = "x"
        found += chain.convs([(8, 8)], [kernel], [groups])
    chain.stack(found)
    chain.add("GlobalAveragePool")
    chain.add("Flatten")
    assert_imports(chain, tmp_path)


def test_stacks_of_depthwise_convolutions_stay(tmp_path: Path) -> None:
    """CoaT: filters of several sizes, without a map after them."""
    chain = Mixed(3, 6, 5)
    chain.conv((3, 12), (1, 1))
    chain.stack(chain.convs([(4, 4), (8, 8)], [3, 5], [4, 8]))
    chain.stack(chain.convs([(4, 4), (8, 8)], [3, 3], [4, 2]))
    chain.add("GlobalAveragePool")
    chain.add("Flatten")
    chain.gemm(12, 4)
    assert_imports(chain, tmp_path)


def test_stacks_whose_channels_are_shuffled_stay(tmp_path: Path) -> None:
    """ShuffleNet."""
    chain = Mixed(3, 6, 5)
    chain.conv((3, 12), (1, 1))
    chain.stack(chain.convs([(6, 6), (6, 6)], [1, 1], [1, 1]))
    for shape in ([-1, 2, 6, 6, 5], [-1, 12, 6, 5]):
        chain.add("Reshape", chain.constant(shape))
        if len(shape) == 5:
            chain.add("Transpose", perm=[0, 2, 1, 3, 4])
    chain.add("GlobalAveragePool")
    chain.add("Flatten")
    chain.gemm(12, 4)
    network = assert_imports(chain, tmp_path).network
    assert [layer.out_channels for layer in network.layers if isinstance(layer, Conv2d)] == [12, 6, 6]

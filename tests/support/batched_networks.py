"""Random small ONNX networks for the test that each picture of a batch gets its own answer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper
from onnx_chain import Chain

BOUNDS = ((0.0, 6.0), (0.0, 1.0), (-1.0, 1.0), (-0.5, 3e38), (-1e4, 1e4))
CHANNELS = (4, 5, 8, 12, 16, 24, 32, 40, 64)


class RandomNetwork:
    """A network drawn from a seed: convolutions, pools, sums, gates and resizes of images with odd and even sizes.

    `saved` writes it as an ONNX file with a symbolic batch; `shape` is the input's (C, H, W), and `words` lists the
    layers for the message of a failing test. The image has a side in [least, most) and up to 3 more columns.
    """

    def __init__(self, seed: int, least: int = 5, most: int = 49) -> None:
        self._random = random = np.random.default_rng(seed)
        size = int(random.integers(least, most))
        self.shape = (int(random.choice([1, 3, 4])), size, size + int(random.choice([0, 0, 1, 3])))
        self._chain = Chain(*self.shape, seed=seed)
        self._channels, self._high, self._wide = self.shape
        self.words: list[str] = [f"{self.shape}"]
        blocks = [
            self._convolve,
            self._convolve,
            self._convolve,
            self._pool,
            self._residual,
            self._gate,
            self._depthwise,
            self._resize,
            self._normalize,
            self._star,
        ]
        self._convolve()
        for _ in range(int(random.integers(1, 5))):
            blocks[int(random.integers(len(blocks)))]()
        self._end()

    def saved(self, folder: Path) -> Path:
        """Write the network to a file in `folder`."""
        path = folder / "network.onnx"
        model = self._chain.model()
        last = helper.make_tensor_value_info(self._chain.value, TensorProto.FLOAT, None)
        model.graph.output[0].CopyFrom(last)
        path.write_bytes(model.SerializeToString())
        return path

    def _conv(self, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        """Add a convolution that roughly preserves the spread of its input."""
        chain, each = self._chain, self._channels // groups
        padding = kernel // 2 if self._random.random() < 0.8 or min(self._high, self._wide) < kernel else 0
        scale = 1.4 / (each * kernel * kernel) ** 0.5
        weight = chain.weight(outputs, each, kernel, kernel, scale=scale)
        bias = chain.weight(outputs, scale=0.2)
        chain.add("Conv", weight, bias, pads=[padding] * 4, strides=[stride] * 2, group=groups)
        self._channels = outputs
        self._high, self._wide = ((side + 2 * padding - kernel) // stride + 1 for side in (self._high, self._wide))
        self.words.append(f"conv {kernel}x{kernel} /{stride} g{groups} p{padding} -> {outputs}")

    def _activate(self) -> None:
        name = str(self._random.choice(["Relu", "Relu", "Relu", "Sigmoid", "HardSwish", "LeakyRelu", ""]))
        if name:
            self._chain.add(name)
            self.words.append(name)

    def _convolve(self) -> None:
        kernel = int(self._random.choice([1, 1, 3, 3, 5]))
        stride = int(self._random.choice([1, 1, 2])) if min(self._high, self._wide) > 3 else 1
        self._conv(int(self._random.choice(CHANNELS)), kernel, stride)
        self._activate()

    def _depthwise(self) -> None:
        """Add a depthwise convolution, usually of an expansion."""
        if self._random.random() < 0.7:
            self._conv(int(self._random.integers(3, 201)), 1)
            self._activate()
        kernel = int(self._random.choice([3, 3, 5, 7]))
        stride = int(self._random.choice([1, 1, 2])) if min(self._high, self._wide) > 3 else 1
        self._conv(self._channels, kernel, stride, groups=self._channels)
        self._activate()

    def _pool(self) -> None:
        window = int(self._random.choice([2, 3]))
        if min(self._high, self._wide) < 2 * window:
            return
        kind = str(self._random.choice(["MaxPool", "MaxPool", "AveragePool"]))
        self._chain.add(kind, kernel_shape=[window] * 2, strides=[2, 2])
        self._high, self._wide = ((side - window) // 2 + 1 for side in (self._high, self._wide))
        self.words.append(f"{kind} {window}")

    def _resize(self) -> None:
        """Resize by two, or by a half if that gives integers, in one of ONNX's modes; or add mirrored padding."""
        sides = (self._high, self._wide)
        way = str(self._random.choice(["nearest", "linear", "cubic", "reflect"]))
        if way == "reflect":
            if min(sides) > 2:
                self._chain.add("Pad", self._chain.constant([0, 0, 2, 1, 0, 0, 0, 2]), mode=way)
                self._high, self._wide = self._high + 2, self._wide + 3
                self.words.append(way)
            return
        scale = 0.5 if self._random.random() < 0.3 and not (self._high % 2 or self._wide % 2) else 2.0
        if scale * max(sides) > 60:
            return
        self._chain.add("Resize", "", self._chain.constant([1.0, 1.0, scale, scale]), mode=way)
        self._high, self._wide = (int(side * scale) for side in sides)
        self.words.append(f"{way} x{scale}")

    def _residual(self) -> None:
        before, channels, size = self._chain.value, self._channels, (self._high, self._wide)
        self._conv(channels, int(self._random.choice([1, 3])))
        if (self._high, self._wide) == size:
            self._chain.add("Add", before)
            self.words.append("+ before")
        self._activate()

    def _normalize(self) -> None:
        """Add a normalisation after an activation, as in Keras's order; some of its scales may be negative."""
        chain, channels = self._chain, self._channels
        least = float(self._random.choice([-1.0, 0.2, 0.2]))
        scale = chain.constant(self._random.uniform(least, 1.5, channels))
        spread = chain.constant(self._random.uniform(0.3, 2, channels))
        more = (chain.weight(channels), chain.weight(channels))
        chain.add("BatchNormalization", scale, *more, spread)
        self.words.append(f"batch norm from {least:g}")

    def _star(self) -> None:
        """Add StarNet's block: a depthwise convolution, a product of two expansions, another depthwise convolution, and
        a sum."""
        chain, before, channels = self._chain, self._chain.value, self._channels
        more = channels * int(self._random.choice([1, 2, 3]))
        if more > 200:
            return
        kernel = int(self._random.choice([3, 5]))

        def depthwise() -> None:
            weight = chain.weight(channels, 1, kernel, kernel, scale=1 / kernel)
            chain.add("Conv", weight, chain.weight(channels), pads=[kernel // 2] * 4, group=channels)

        depthwise()
        read, scale = chain.value, 1 / channels**0.5
        gate = chain.add("Conv", chain.weight(more, channels, 1, 1, scale=scale), chain.weight(more), first=read)
        gate = chain.add("Relu")
        chain.add("Conv", chain.weight(more, channels, 1, 1, scale=scale), chain.weight(more), first=read)
        chain.add("Mul", gate)
        chain.add("Conv", chain.weight(channels, more, 1, 1, scale=1 / more**0.5), chain.weight(channels))
        depthwise()
        chain.add("Add", before)
        self.words.append(f"star of {more}, {kernel}x{kernel}")

    def _gate(self) -> None:
        """Add a squeeze-and-excite gate."""
        chain, before = self._chain, self._chain.value
        channels, high, wide = self._channels, self._high, self._wide
        chain.add("GlobalAveragePool")
        self._high = self._wide = 1
        self._conv(max(2, channels // 4), 1)
        chain.add("Relu")
        self._conv(channels, 1)
        chain.add("Sigmoid")
        chain.add("Mul", before)
        self._high, self._wide = high, wide
        self.words.append("* before")

    def _end(self) -> None:
        features = self._channels
        if self._random.random() < 0.4:
            self._chain.add("GlobalAveragePool")
            self.words.append("mean")
        else:
            features *= self._high * self._wide
        self._chain.add("Flatten")
        outputs = int(self._random.choice([2, 5, 10, 10, 200 if features <= 2048 else 10]))
        self._chain.add(
            "Gemm",
            self._chain.weight(features, outputs, scale=2 / features**0.5),
            self._chain.weight(outputs, scale=0.2),
        )
        self.words.append(f"dense -> {outputs}")


class BoundedNetwork(RandomNetwork):
    """A random network with clips and silu among its activations."""

    def _activate(self) -> None:
        chain, before = self._chain, self._chain.value
        name = str(self._random.choice(["Relu", "Clip", "Clip", "Silu", "HardSwish", "LeakyRelu", "Sigmoid", ""]))
        if name == "Clip":
            bounds = BOUNDS[int(self._random.integers(len(BOUNDS)))]
            chain.add("Clip", *map(chain.constant, bounds))
            name = f"Clip {bounds}"
        elif name == "Silu":
            chain.add("Sigmoid")
            chain.add("Mul", before)
        elif name:
            chain.add(name)
        self.words.append(name)


class StagedNetwork(RandomNetwork):
    """Stages as in YOLO, then other layers: a convolution whose output is sliced in halves, convolutions of one half,
    with or without a sum, and a convolution of the concatenation."""

    def _convolve(self) -> None:
        if max(self._high, self._wide) < 4 or self._random.random() < 0.3:
            super()._convolve()
            return
        random, chain = self._random, self._chain
        half = int(random.choice([9, 12, 16, 16, 20, 24, 32, 33, 40, 64]))
        self._conv(2 * half, int(random.choice([1, 3])), int(random.choice([1, 1, 2, 3, 4, 5])))
        self._activate()
        size = (self._high, self._wide)
        chain.add("Split", chain.constant([half, half]), outputs=2, axis=1)
        parts = list(chain.nodes[-1].output)
        for _ in range(int(random.integers(1, 3))):
            chain.value, self._channels = parts[-1], half
            for kernel in random.choice([1, 3, 3], 2).tolist():
                weight = chain.weight(half, half, kernel, kernel, scale=1.4 / (half * kernel * kernel) ** 0.5)
                chain.add("Conv", weight, chain.weight(half, scale=0.2), pads=[kernel // 2] * 4)
                self._activate()
            if random.random() < 0.6:
                chain.add("Add", parts[-1])
                self.words.append("+ half")
            parts.append(chain.value)
        read = [parts[n] for n in random.permutation(len(parts))][int(random.random() < 0.2) :]
        chain.add("Concat", *read[1:], first=read[0], axis=1)
        self._channels, (self._high, self._wide) = len(read) * half, size
        self.words.append(f"stage of {len(read)} x {half}")
        outputs, kernel = int(random.choice([16, 32, 40, 64, 72, 128])), int(random.choice([1, 1, 3]))
        self._conv(outputs, kernel, int(random.choice([1, 2])))
        self._activate()

"""Scaled dot-product attention: each output token is the mean of all values, weighted by how well their keys match the
query."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..checks import MAX_CHANNELS, Shape, check_numbers, check_range, describe_shape
from ..errors import ModelError
from .layer import Layer, Tensors
from .softmax import softmax

MAX_TOKENS = 4_096  # maximum length of a sequence, whose scores stay on the chip


@dataclass(frozen=True)
class Attention(Layer):
    """Scaled dot-product attention with `heads` heads: softmax(scale * queries^T keys + bias), times the values.

    The layer reads queries, keys and values, images whose pixels are the tokens: [C, H, W], [C, H', W'] and
    [C', H', W']. The output is [C', H, W]. Head h uses the h-th part of the channels. With `by_rows`, each row of
    pixels is a separate sequence, like the windows of a Swin transformer, and all three inputs must have the same
    number of rows. If `is_linear` is set, the softmax and the bias are omitted, leaving only the two products.

    Tensors: `<name>.bias`, if `bias_shape` is not empty. Its shape is [heads, rows, queries, keys]; the first two sizes
    may be 1. The bias represents relative positions, or a mask of large negative numbers.
    """

    heads: int
    scale: float = 1.0
    by_rows: bool = False
    bias_shape: tuple[int, ...] = ()
    is_linear: bool = False

    kind: ClassVar[str] = "attention"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self.name, "heads", self.heads, 1, MAX_CHANNELS)
        check_numbers(self.name, "scale", (self.scale,), 1)
        if self.is_linear and self.bias_shape:
            raise ModelError(f"layer {self.name!r}: a bias requires a softmax")
        if self.bias_shape and (len(self.bias_shape) != 4 or self.bias_shape[0] not in (1, self.heads)):
            raise ModelError(
                f"layer {self.name!r}: bias_shape must be [heads, rows, queries, keys], got {list(self.bias_shape)[:8]}"
            )

    def reads(self) -> tuple[int, int]:
        """Return (3, 3): the layer reads queries, keys and values."""
        return 3, 3

    def tensors(self) -> dict[str, Shape]:
        """Return the shape of the bias, if there is one."""
        return {"bias": self.bias_shape} if self.bias_shape else {}

    def output_shape(self, *shapes: Shape) -> Shape:
        """Return (C', H, W) for (C, H, W), (C, H', W') and (C', H', W'); raise ModelError if they do not match."""
        queries, keys, values = (self.image(shape) for shape in shapes)
        if queries[0] != keys[0] or keys[1:] != values[1:] or (self.by_rows and queries[1] != keys[1]):
            shapes_text = ", ".join(describe_shape(shape) for shape in (queries, keys, values))
            raise ModelError(f"layer {self.name!r}: the shapes of queries, keys and values do not match: {shapes_text}")
        if queries[0] % self.heads or values[0] % self.heads:
            raise ModelError(
                f"layer {self.name!r}: {queries[0]} and {values[0]} channels cannot be divided into {self.heads} heads"
            )
        tokens = self.tokens(queries), self.tokens(keys)
        if max(tokens) > MAX_TOKENS:
            raise ModelError(f"layer {self.name!r}: sequences of {max(tokens)} tokens exceed the limit of {MAX_TOKENS}")
        rows = queries[1] if self.by_rows else 1
        if self.bias_shape and (self.bias_shape[1] not in (1, rows) or self.bias_shape[2:] != tokens):
            raise ModelError(
                f"layer {self.name!r}: bias_shape must be {[self.heads, rows, *tokens]}, got {list(self.bias_shape)}"
            )
        return (values[0], *queries[1:])

    def tokens(self, shape: Shape) -> int:
        """Return the number of tokens per sequence in an image (C, H, W)."""
        return shape[2] if self.by_rows else shape[1] * shape[2]

    def run(self, tensors: Tensors, *inputs: np.ndarray) -> np.ndarray:
        """Compute the attention."""
        queries, keys, values = (self._split(x) for x in inputs)
        scores = np.einsum("bhdrq,bhdrk->bhrqk", queries, keys, optimize=True) * np.float32(self.scale)
        if self.bias_shape:
            scores = scores + tensors["bias"]
        weights = scores if self.is_linear else softmax(scores)
        mixed = np.einsum("bhdrk,bhrqk->bhdrq", values, weights, optimize=True)
        return mixed.reshape(len(mixed), inputs[2].shape[1], *inputs[0].shape[2:])

    def _split(self, x: np.ndarray) -> np.ndarray:
        """Reshape [B, C, H, W] to [B, heads, features, sequences, tokens]."""
        batch, channels, rows, columns = x.shape
        sequences = rows if self.by_rows else 1
        return x.reshape(batch, self.heads, channels // self.heads, sequences, rows * columns // sequences)

    def multiply_accumulates(self, *shapes: Shape) -> int:
        """Return the number of multiply-accumulates of both products."""
        queries, keys, values = shapes
        return (queries[0] + values[0]) * math.prod(queries[1:]) * self.tokens(keys)

"""The check after an import: the golden model of the imported network against ONNX Runtime, on random input."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..errors import ModelError
from ..golden import run_network
from ..inputs import FeatureInput, ImageInput
from ..network import Network
from .onnx_file import Graph, GraphInput, cut
from .onnx_graph import Cut
from .operators.quantized import NOTE as WHOLE_NUMBERS

# Beyond these the comparison is left out: it would take minutes, or memory that nobody expects of an import.
MAX_ELEMENTS = 1 << 27  # numbers that all layers give together, for the batch that the file wants
MAX_WORK = 1 << 37  # multiply-accumulates: ten VGG-19
LEAST = 1 << 10  # numbers that a layer counts as for one example, at least
MAX_RANDOM = 1 << 22  # numbers of the input; where there are more, they come again

# Largest difference by the largest output: float32 sums in another order, a file that computes in float16, or whole
# numbers of 8 bits, whose rounding in every layer the imported network leaves out.
TOLERANCES = {"float32": 1e-3, "float64": 1e-3, "float16": 3e-2}
WHOLE_TOLERANCE = 0.25


class RejectedError(ModelError):
    """ONNX Runtime does not run the file; the message is its own."""


@dataclass(frozen=True)
class Comparison:
    """What the comparison gave; `skipped` says why there was none."""

    skipped: str = ""
    max_abs_error: float = 0.0
    largest_output: float = 0.0
    tolerance: float = 0.0

    @property
    def passed(self) -> bool:
        """True where nothing speaks against the import."""
        return bool(self.skipped) or self.max_abs_error <= self.tolerance * self.largest_output


def compare(
    network: Network,
    tensors: Mapping[str, np.ndarray],
    path: Path,
    graph: Graph,
    part: Cut,
    notes: tuple[str, ...] = (),
) -> Comparison:
    """Run the golden model and ONNX Runtime on the same random input; RejectedError where the latter refuses the file.

    ONNX Runtime runs the file itself, or, where something was cut away, the part that is left of it.
    """
    try:
        import onnxruntime  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        return Comparison("ONNX Runtime is not installed (pip install onnxruntime)")
    given = next(entry for entry in graph.inputs if entry.name == part.source)
    reason = _too_large(network, given.shape[0] or 1 if _has_batch(network, given) else 1)
    if reason:
        return Comparison(reason)
    x, batch = _random_input(network, given)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # its complaints come back as exceptions
    whole = len(part.nodes) == len(graph.nodes) and graph.outputs == (part.output,)
    try:
        if whole:
            source: str | bytes = str(path)
        else:
            source = cut(graph, [node.outputs[0] for node in part.nodes], part.output)
            folder = str(path.resolve().parent)
            options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
        session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        assert given.dtype is not None
        fed = x.astype(given.dtype)
        if isinstance(network.input, FeatureInput) and len(given.shape) > 2:  # a row of more axes than one
            fed = fed.reshape(batch, *(size or 1 for size in given.shape[1:]))
        expected = session.run([part.output], {given.name: fed})[0]
    except Exception as error:  # ONNX Runtime has no common base for what it raises
        raise RejectedError(f"ONNX Runtime does not run it: {' '.join(str(error).split())[:200]}") from None
    return _difference(network, tensors, x, batch, np.asarray(expected), given, notes)


def _has_batch(network: Network, given: GraphInput) -> bool:
    """Whether the file's input has an axis for the batch."""
    return len(given.shape) > len(_example(network))


def _example(network: Network) -> tuple[int, ...]:
    """The shape of one example as the file has it."""
    source = network.input
    return source.array_shape if isinstance(source, ImageInput) else source.shape


def _random_input(network: Network, given: GraphInput) -> tuple[np.ndarray, int]:
    """Random numbers in the shape that the file wants, and the entries of its batch."""
    example, batch = _example(network), 1
    shape = example
    if _has_batch(network, given):
        batch = given.shape[0] or (1 if _too_large(network, 2) else 2)
        shape = (batch, *example)
    generator = np.random.default_rng(0)
    count = min(math.prod(shape), MAX_RANDOM)
    if given.dtype is not None and given.dtype.kind in "iu":
        numbers = generator.integers(0, 256, count).astype(np.float32)
    else:
        numbers = generator.standard_normal(count, np.float32)
    return np.resize(numbers, shape), batch


def _too_large(network: Network, batch: int) -> str:
    shapes = network.shapes()
    numbers = batch * sum(max(LEAST, math.prod(shape)) for shape in shapes.values())
    work = batch * sum(layer.multiply_accumulates(*(shapes[name] for name in layer.inputs)) for layer in network.layers)
    if numbers > MAX_ELEMENTS or work > MAX_WORK:
        return f"too large to try ({batch} x {numbers // batch:,} numbers, {work / batch:.2g} multiply-accumulates)"
    return ""


def _difference(
    network: Network,
    tensors: Mapping[str, np.ndarray],
    x: np.ndarray,
    batch: int,
    expected: np.ndarray,
    given: GraphInput,
    notes: tuple[str, ...],
) -> Comparison:
    assert given.dtype is not None
    tolerance = TOLERANCES.get(given.dtype.name, 1e-3)
    if any(note.startswith(WHOLE_NUMBERS) for note in notes):
        tolerance = WHOLE_TOLERANCE
    if given.dtype == np.float16:
        x = x.astype(np.float16).astype(np.float32)
    result = run_network(network, tensors, channels_first(network, x, batch)).scores
    if result.size != expected.size or expected.dtype.kind not in "fiu":
        return Comparison("", math.inf, 0.0, tolerance)
    expected = expected.astype(np.float32).reshape(result.shape)
    difference = float(np.abs(result - expected).max())
    largest = float(np.abs(expected).max())
    return Comparison("", difference if math.isfinite(difference) else math.inf, largest, tolerance)


def channels_first(network: Network, x: np.ndarray, batch: int) -> np.ndarray:
    """Arrays of examples as the network's file has them, as [batch, C, H, W] or [batch, F]."""
    source = network.input
    if not isinstance(source, ImageInput):
        return x.reshape(batch, *source.shape)
    examples = x.reshape(batch, *source.array_shape)
    if source.layout == "HWC":
        examples = examples.transpose(0, 3, 1, 2)
    return np.ascontiguousarray(examples.reshape(batch, *source.shape))

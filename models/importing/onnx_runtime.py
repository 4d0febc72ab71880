"""The check after an import: the golden model of the network is compared with ONNX Runtime on random inputs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ..before_answers import squeezed_outputs, without_squeezing
from ..errors import ModelError
from ..golden import OutputRun, run_network
from ..inputs import ImageInput, PartInput, SeveralInputs
from ..layers import Softmax
from ..network import Network
from .onnx_cut import Cut
from .onnx_file import Graph, cut
from .onnx_functions import MISSING
from .onnx_input import GraphSource, SourcePart
from .onnx_scales import output_scale
from .steps import LARGEST, LEAST_INFINITE

# Limits of the comparison, which would otherwise take minutes or unexpectedly much memory.
MAX_ELEMENTS = 1 << 27  # total number of outputs of all layers, for the batch size of the file
MAX_WORK = 1 << 37  # multiply-accumulates: the equivalent of ten VGG-19 networks
AT_ONCE = 1 << 24  # maximum number of elements per run, if it contains more than one example
LEAST_COMPARED = 1e-6  # smaller values may be rounding errors
LEAST = 1 << 10  # minimum number of elements assumed per layer and example
MAX_RANDOM = 1 << 22  # number of random elements generated for an input; longer inputs repeat them
TOGETHER = 3  # batch size with which a file is run if it does not fix one
KEPT = 3  # number of examples whose outputs are kept
EXAMPLES = ((16, 1 << 33), (3, 1 << 35))  # (number of examples, maximum number of multiply-accumulates)

_SATURATING = {"sigmoid": ("Sigmoid",), "hardsigmoid": ("HardSigmoid",), "tanh": ("Tanh",)}  # operators, by activation
_BEFORE_MAPS = ("Softmax", "LogSoftmax", "Sigmoid", "HardSigmoid")  # removed when maps are recognised (map_outputs.py)
_SAME_ORDER = ("Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Cast")  # keep the order of elements

# Maximum difference, relative to the largest output. It allows for float32 sums in a different order, for files that
# compute in float16, and for 8-bit files, whose rounding after each layer the imported network omits.
TOLERANCES = {"float32": 1e-3, "float64": 1e-3, "float16": 3e-2}
WHOLE_TOLERANCE = 0.25
USUAL_ROUNDING = 1e-4  # larger differences in float32 are noted; those of measured networks are at most 7e-6


class RejectedError(ModelError):
    """ONNX Runtime rejected the file; the message is from ONNX Runtime."""


@dataclass(frozen=True)
class Comparison:
    """The result for the output with the largest difference, or the reason why the comparison was skipped.

    `outputs` contains the outputs of the file for a few examples, or None if another value was compared instead.
    """

    skipped: str = ""
    max_abs_error: float = 0.0
    largest_output: float = 0.0
    tolerance: float = 0.0
    examples: int = 0
    outputs: tuple[np.ndarray | None, ...] = field(default=(), compare=False, repr=False)

    @property
    def passed(self) -> bool:
        """True if the comparison found no evidence against the import."""
        return bool(self.skipped) or self.max_abs_error <= self.tolerance * self.largest_output

    @property
    def sensitivity(self) -> float:
        """The difference relative to the largest output if both computed in float32; otherwise 0."""
        is_exact = not self.skipped and self.largest_output > 0 and self.tolerance <= TOLERANCES["float32"]
        return self.max_abs_error / self.largest_output if is_exact else 0.0

    @property
    def notes(self) -> tuple[str, ...]:
        """Return a note if the outputs are accepted although they differ by more than rounding usually explains."""
        if not self.passed or self.sensitivity <= USUAL_ROUNDING:
            return ()
        differs = f"the outputs differ from those of ONNX Runtime by up to {self.sensitivity:.1g} of the largest output"
        return (
            f"{differs}, which is more than rounding in float32 usually causes; compare the answers for your own "
            f"inputs",
        )

    @property
    def _badness(self) -> float:
        allowed = self.tolerance * self.largest_output
        if self.skipped or not self.max_abs_error:
            return -1.0 if self.skipped else 0.0
        return self.max_abs_error / allowed if allowed else math.inf


@dataclass(frozen=True)
class ImportedGraph:
    """A file and the network imported from it."""

    path: Path
    graph: Graph
    part: Cut
    source: GraphSource
    network: Network
    tensors: Mapping[str, np.ndarray]
    names: tuple[str, ...]  # names of the network's outputs in the file
    mixes_inputs: bool = False  # a node of the file computes an input from others of the batch
    is_quantized: bool = False  # the file rounds to integers, which the network does not
    map_is_last: bool = False  # in the file, the class axis of a map comes after the rows and columns


def _values_to_compare(
    imported: ImportedGraph, number: int, outputs: Sequence[OutputRun], count: int, before_squeezing: bool
) -> np.ndarray:
    """Return the values of the golden model for an output, which has `count` numbers per example in ONNX Runtime."""
    if imported.network.named_outputs[number].output.kind == "map":
        return np.concatenate([_scores_of_map(output.logits, count, imported.map_is_last) for output in outputs])
    return np.concatenate([output.logits if before_squeezing else output.scores for output in outputs])


def compare(imported: ImportedGraph) -> Comparison:
    """Run the golden model and ONNX Runtime on the same random inputs; raise RejectedError if the latter rejects it.

    ONNX Runtime runs the file itself, or its imported part, with the batch size of the file. If the file leaves it
    open, this is 1, and a larger batch must compute the same outputs. Large weights are passed as inputs if there are
    many of them (onnx_tensors.py). If an output ends in a softmax, a sigmoid or a tanh, the values before it are
    compared, because saturated values would hide differences.
    """
    try:
        import onnxruntime  # noqa: F401  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        return Comparison("ONNX Runtime is not installed (pip install onnxruntime)")
    batch = imported.source.batch
    reason = _too_large(imported.network, batch)
    if reason:
        return Comparison(reason)
    count = -(-_affordable(imported.network) // batch) * batch
    generator = np.random.default_rng(0)
    is_open = imported.source.fixed_batch is None and not imported.mixes_inputs
    together = TOGETHER if is_open and not _too_large(imported.network, TOGETHER) else 1
    examples = [_random(part, max(count, together), generator) for part in imported.source.parts]
    arrays = [array[:count] for array in examples]
    squeezed = squeezed_outputs(imported.network)
    before = [_before_answer(imported, squeezed, name) for name in imported.names]
    network = without_squeezing(imported.network, _left_out(imported, squeezed, before))
    file = _File(imported, [value_name or name for value_name, name in zip(before, imported.names)])
    batches = file.run_all(examples, batch)
    if together > 1:
        _check_separate(imported, file, [array[:together] for array in examples], batches[:together])
    expected = [_rows(values, batch)[:count] for values in zip(*batches)]
    inputs = _network_input(imported, arrays)
    step = max(1, AT_ONCE // _numbers(imported.network))
    with np.errstate(all="ignore"):  # overflows show up as differences
        runs = [
            run_network(network, imported.tensors, inputs[first : first + step]).outputs
            for first in range(0, count, step)
        ]
    results = []
    for number, expected_output in enumerate(expected):
        outputs = [run[number] for run in runs]
        computed = _values_to_compare(imported, number, outputs, expected_output.shape[1], bool(before[number]))
        results.append(_difference(imported, number, computed, expected_output))
    worst = max(results, key=lambda result: result._badness)
    values = [rows[:KEPT] if value is None and len(rows) else None for value, rows in zip(before, expected)]
    return replace(worst, outputs=tuple(values))


def _before_answer(imported: ImportedGraph, squeezed: Mapping[str, str], name: str) -> str | None:
    """Return the input of the softmax or saturating function that computes an output of the file, or None if the
    output does not end in such a function."""
    producers = {output: node for node in imported.part.nodes for output in node.outputs}
    named = imported.network.named_outputs[imported.names.index(name)]
    last = next(layer for layer in imported.network.layers if layer.name == named.layer)
    if named.output.kind == "map":
        ops: tuple[str, ...] = _BEFORE_MAPS
    elif isinstance(last, Softmax):
        ops = ("Softmax", "LogSoftmax")
    else:
        ops = _SATURATING.get(squeezed.get(last.name, ""), ())
    while (node := producers.get(name)) is not None and node.op in _SAME_ORDER:
        name = node.inputs[0]
    return node.inputs[0] if node is not None and node.op in ops else None


def _scores_of_map(logits: np.ndarray, size: int, is_last: bool) -> np.ndarray:
    """Return the scores [B, size] that correspond to a map, [B, classes, rows, columns], in the order of the file and
    without the zeros added to a single channel."""
    pixels = logits[0, 0].size
    scores = logits[:, -(size // pixels) :]
    return (np.moveaxis(scores, 1, -1) if is_last else scores).reshape(len(scores), -1)


def _left_out(imported: ImportedGraph, squeezed: Mapping[str, str], before: Sequence[str | None]) -> dict[str, str]:
    """Return the layers whose activations are omitted whenever an output that they compute is compared."""
    outputs = zip(imported.network.named_outputs, before)
    left_out_layers = {output.layer for output, value in outputs if value is None}
    return {layer: function for layer, function in squeezed.items() if layer not in left_out_layers}


def _model_to_run(imported: ImportedGraph, names: Sequence[str]) -> str | bytes:
    """Return the path or content of the file that computes the values `names`, or the content of its imported part."""
    graph, part = imported.graph, imported.part
    is_whole = len(part.nodes) == len(graph.nodes) and set(names) <= set(graph.outputs)
    is_whole = is_whole and not any(node.op in MISSING for node in part.nodes)
    if not is_whole or len(part.sources) != len(graph.inputs):
        return cut(graph, [node.outputs[0] for node in part.nodes], names)
    return str(imported.path) if graph.stripped is None else graph.stripped.message


class _File:
    """A file, or its imported part, opened by ONNX Runtime to compute the values `names`."""

    def __init__(self, imported: ImportedGraph, names: Sequence[str]) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        # Without this option, products of uint8 and int8 saturate at 16 bits on x86 processors that lack VNNI.
        options.add_session_config_entry("session.x64quantprecision", "1")
        options.log_severity_level = 4  # errors are raised as exceptions anyway
        try:
            model = _model_to_run(imported, names)
            if isinstance(model, bytes):  # small weights may still be in external files
                folder = str(imported.path.resolve().parent)
                options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
            self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # ONNX Runtime's exceptions have no common base class
            raise _rejected(error) from None
        input_names = {value.name for value in self._session.get_inputs()}
        stripped = imported.graph.stripped.names if imported.graph.stripped is not None else ()
        self._lent = {name: imported.graph.constants[name] for name in stripped if name in input_names}
        self._parts, self._names = imported.source.parts, list(names)

    def run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the values computed for one batch, which contains all examples in `arrays`."""
        fed = self._lent | {part.name: _as_read(part, array) for part, array in zip(self._parts, arrays)}
        try:
            return list(map(np.asarray, self._session.run(self._names, fed)))
        except Exception as error:
            raise _rejected(error) from None

    def run_all(self, arrays: Sequence[np.ndarray], batch: int) -> list[list[np.ndarray]]:
        """Return the values computed for each batch of `batch` examples."""
        starts = range(0, len(arrays[0]), batch)
        return [self.run([array[first : first + batch] for array in arrays]) for first in starts]


def _rejected(error: Exception) -> RejectedError:
    return RejectedError(f"ONNX Runtime failed: {' '.join(str(error).split())[:200]}")


def _check_separate(
    imported: ImportedGraph, file: _File, arrays: Sequence[np.ndarray], separate: Sequence[Sequence[np.ndarray]]
) -> None:
    """Raise RejectedError if a file with a variable batch size computes other outputs for a batch than for each of its
    inputs.

    `arrays` contains the inputs of the batch, and `separate` the values computed for each of them alone. A file that
    cannot run a batch, such as one with fixed reshapes, is accepted.
    """
    try:
        together = file.run(arrays)
    except RejectedError:
        return
    for value, *alone in zip(together, *separate):
        shapes = {(len(alone), *other.shape[1:]) for other in alone if len(other.shape) and len(other) == 1}
        if {value.shape} != shapes or value.dtype.kind != "f":
            continue
        expected = np.concatenate(alone).astype(np.float32)
        largest = float(np.abs(expected[np.isfinite(expected)]).max(initial=0.0))
        allowed = _tolerance(imported) * largest
        if not np.allclose(value.astype(np.float32), expected, rtol=0.0, atol=allowed, equal_nan=True):
            raise RejectedError(
                f"in a batch of {len(alone)}, ONNX Runtime computes other outputs for an input than for that input "
                "alone, so the file mixes the inputs of a batch or depends on its size; export it for a batch of one"
            )


def _as_read(part: SourcePart, examples: np.ndarray) -> np.ndarray:
    """Return the examples of a batch in the shape and dtype that an input of the file requires."""
    shape = (len(examples), *part.view.shape) if part.view.batched else part.view.shape
    return np.ascontiguousarray(examples.reshape(shape), part.dtype)


def _rows(values: Sequence[np.ndarray], batch: int) -> np.ndarray:
    """Concatenate the outputs of several runs, [count, size]; no rows if they cannot be divided among the examples."""
    if any(value.size % batch or value.dtype.kind not in "fiu" for value in values):
        return np.empty((0, 0), np.float32)
    return np.concatenate([value.reshape(batch, -1) for value in values])


def _random(part: SourcePart, count: int, generator: np.random.Generator) -> np.ndarray:
    """Return random examples [count, *shape] of one input, with the axes in the order of the file."""
    shape = (count, *part.view.shape)
    numbers = min(math.prod(shape), MAX_RANDOM)
    if part.dtype.kind in "iu":
        low, high = (-128, 128) if part.dtype == np.int8 else (0, 256)
        return np.resize(generator.integers(low, high, numbers), shape)
    values = generator.standard_normal(numbers, np.float32)
    return np.resize(values.astype(part.dtype) if part.dtype == np.float16 else values, shape)


def _network_input(imported: ImportedGraph, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Convert the same examples to the input of the network, with the axes in the order of the network."""
    parts, spec = imported.source.parts, imported.network.input
    inputs = {part.name: channels_first(part.input, array.astype(np.float32)) for part, array in zip(parts, arrays)}
    return spec.pack(inputs) if isinstance(spec, SeveralInputs) else inputs[parts[0].name]


def channels_first(source: PartInput, x: np.ndarray) -> np.ndarray:
    """Convert examples [count, ...] from the axis order of the file to [count, C, H, W] or [count, F]."""
    if not isinstance(source, ImageInput):
        return x.reshape(len(x), *source.shape)
    examples = x.reshape(len(x), *source.array_shape)
    if source.layout == "HWC":
        examples = examples.transpose(0, 3, 1, 2)
    return np.ascontiguousarray(examples.reshape(len(x), *source.shape))


def _numbers(network: Network) -> int:
    """Return the total number of output elements of all layers for one example."""
    return sum(max(LEAST, math.prod(shape)) for shape in network.shapes().values())


def _work(network: Network) -> int:
    shapes = network.shapes()
    return sum(layer.multiply_accumulates(*(shapes[name] for name in layer.inputs)) for layer in network.layers)


def _too_large(network: Network, batch: int) -> str:
    numbers, work = _numbers(network), _work(network)
    if batch * numbers > MAX_ELEMENTS or batch * work > MAX_WORK:
        return f"too large to be compared ({batch} x {numbers:,} numbers, {work:.2g} multiply-accumulates)"
    return ""


def _affordable(network: Network) -> int:
    """Return the number of examples to compare, which is smaller for slow networks."""
    work = _work(network)
    return next((count for count, most in EXAMPLES if count * work <= most), 1)


def _tolerance(imported: ImportedGraph) -> float:
    """Return the maximum difference from the file, relative to the largest output."""
    if imported.is_quantized:
        return WHOLE_TOLERANCE
    names = {name for node in imported.part.nodes for name in node.inputs}
    constants = imported.graph.constants
    if any(constants[name].dtype == np.float16 for name in names & constants.keys()):
        return TOLERANCES["float16"]  # even if its inputs and outputs are float32
    return TOLERANCES.get(imported.source.parts[0].dtype.name, 1e-3)


def _difference(imported: ImportedGraph, number: int, result: np.ndarray, expected: np.ndarray) -> Comparison:
    """Compare one output of the network, [count, size], with the corresponding output of the file.

    Infinities of the file, such as those of a mask, may be large numbers in the network.
    """
    tolerance = _tolerance(imported)
    if result.shape != expected.shape:
        return Comparison("", math.inf, 0.0, tolerance, len(result))
    if expected.dtype.kind in "iu":
        scale = output_scale(imported.part.nodes, imported.graph.constants, imported.names[number])
        expected = expected if scale is None else scale.dequantize(expected)
    expected = expected.astype(np.float32)
    if np.isnan(expected).any():
        raise RejectedError(
            f"ONNX Runtime computes NaN for the output {imported.names[number]!r} on random inputs, as for a softmax "
            "whose entries are all -infinity"
        )
    with np.errstate(invalid="ignore"):  # undefined where the output of the file is infinite
        differences = np.abs(result - expected)
    is_infinite = np.abs(expected) >= LEAST_INFINITE
    alike = is_infinite & (np.abs(result) >= LARGEST / 2) & (np.sign(result) == np.sign(expected))
    difference = float(np.where(alike, 0, differences).max())
    largest = float(np.abs(expected[~is_infinite]).max(initial=0.0))
    if is_infinite.all() and alike.all():
        return Comparison("the outputs are infinite on random inputs")
    if max(largest, difference) < LEAST_COMPARED:
        return Comparison(f"the outputs are at most {largest:.2g} on random inputs, too small for a comparison")
    return Comparison("", difference if math.isfinite(difference) else math.inf, largest, tolerance, len(result))

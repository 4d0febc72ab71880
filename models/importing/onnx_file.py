"""An ONNX file as plain data: nodes, constants, inputs and outputs. Nothing is computed or executed.

The optional package `onnx` decodes the file; only this module and onnx_tensors.py use its objects directly.
"""

from __future__ import annotations

import contextlib
import gzip
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..budget import Budget
from ..errors import ModelError
from ..regular_files import describe, file_size, open_regular
from .onnx_functions import MAX_NODES, with_standard_operators, without_functions
from .onnx_size import take_message
from .onnx_tensors import Stripped, TensorReader, UnknownTypeError, strip

if TYPE_CHECKING:
    import onnx

MAX_FILE_BYTES = 2 << 30  # the maximum size of a protobuf message
COPIED = 1 << 20  # number of bytes copied per step
MIN_OPSET = 7  # earlier versions of Gemm, BatchNormalization and Dropout differ

INSTALL_HINT = "reading ONNX files requires the package onnx: pip install 'trninfer[onnx]'"

_CONSTANT_VALUES = ("value", "value_int", "value_ints", "value_float", "value_floats")
_ONNX_DOMAINS = ("", "ai.onnx")


class MissingOnnxError(ModelError):
    """The package onnx is not installed; the message contains the command that installs it."""


@dataclass(frozen=True)
class Branch:
    """A subgraph of an `If` node, which may read values of the enclosing graph."""

    nodes: tuple[Node, ...]
    constants: Mapping[str, np.ndarray]
    outputs: tuple[str, ...]

    def captured(self) -> list[str]:
        """Return the names of the values that the branch reads from the enclosing graph."""
        defined = {name for node in self.nodes for name in node.outputs} | set(self.constants)
        read = [name for node in self.nodes for name in node.inputs]
        return [name for name in dict.fromkeys((*read, *self.outputs)) if name and name not in defined]


Attribute = int | float | str | tuple[int, ...] | tuple[float, ...] | tuple[str, ...] | np.ndarray | Branch


@dataclass(frozen=True)
class Node:
    """An operation; the names of omitted inputs are empty."""

    op: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute]

    def __str__(self) -> str:
        return f"node {self.name or self.outputs[0]!r} ({self.op})"


@dataclass(frozen=True)
class GraphInput:
    """An input of a graph; sizes that are not fixed are None."""

    name: str
    shape: tuple[int | None, ...]
    dtype: np.dtype[Any] | None  # None for an unsupported type
    type_name: str = ""


@dataclass(frozen=True)
class Graph:
    """A graph as stored in the file."""

    name: str
    nodes: tuple[Node, ...]
    constants: Mapping[str, np.ndarray]
    inputs: tuple[GraphInput, ...]
    outputs: tuple[str, ...]
    scores: frozenset[str]  # outputs that may be scores: floating point numbers, or integers that represent them
    opset: int
    made_by: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    texts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # text constants
    path: Path = Path()  # path of the file, used only by `cut`
    stripped: Stripped | None = None  # the file without weights, if they are too large to be read again


def read_onnx(path: Path) -> Graph:
    """Read the graph of an ONNX file; raise ModelError with a one-line message if the file has no readable graph."""
    model = _decoded(path)
    try:
        return _graph(model, path)
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None
    except UnicodeDecodeError:
        raise ModelError(f"{path}: contains a name that is not valid text; the file is corrupt or not ONNX") from None


@contextlib.contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """Yield the file, or for FILE.onnx.gz a temporary unpacked copy; raise ModelError if that is not a gzip file."""
    if path.suffix.lower() != ".gz":
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="trninfer-") as folder:
        copy = Path(folder, path.stem)
        try:
            with open_regular(path) as compressed, gzip.GzipFile(fileobj=compressed) as file, copy.open("wb") as target:
                size = 0
                while part := file.read(COPIED):
                    size += len(part)
                    if size > MAX_FILE_BYTES:
                        raise ModelError(f"{path}: more than {MAX_FILE_BYTES} bytes when unpacked")
                    target.write(part)
        except (OSError, EOFError, ValueError, zlib.error) as error:
            if isinstance(error, ModelError):
                raise
            raise ModelError(f"{path}: cannot be unpacked: {error}") from None
        yield copy


def _decoded(path: Path) -> onnx.ModelProto:
    """Return the message in a file; raise ModelError if the file does not contain a message with a graph."""
    try:
        import onnx
        from google.protobuf.message import DecodeError  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        raise MissingOnnxError(INSTALL_HINT) from None
    try:
        with open_regular(path) as file:
            size = file_size(file)
            if size > MAX_FILE_BYTES:
                raise ModelError(f"{path}: {size} bytes; an ONNX file may have at most {MAX_FILE_BYTES} bytes")
            content, budget = file.read(size), Budget.of(file)
        take_message(onnx.ModelProto.DESCRIPTOR, content, budget)
        model = onnx.ModelProto.FromString(content)
    except ModelError:
        raise
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: {describe(error)}") from None
    except DecodeError:
        raise ModelError(f"{path}: not an ONNX file, or corrupt") from None
    if not model.HasField("graph") or not model.graph.node:
        raise ModelError(f"{path}: not an ONNX file, or an ONNX file without a graph")
    return model


def _keep(entries: Any, is_kept: Callable[[Any], bool]) -> None:
    """Remove the other entries from a repeated field of a message."""
    remaining = [entry for entry in entries if is_kept(entry)]
    del entries[:]
    entries.extend(remaining)


def cut(graph: Graph, nodes: Iterable[str], outputs: Sequence[str]) -> bytes:
    """Return the model reduced to the nodes that `nodes` depend on and to the given outputs.

    Unless the graph was stripped, the file is read again, because its content is not kept in memory with the network.
    """
    import onnx
    from onnx import TensorProto, helper

    needed = set(nodes)
    model = _decoded(graph.path) if graph.stripped is None else onnx.ModelProto.FromString(graph.stripped.message)
    model = without_functions(model)
    remaining = [node for node in model.graph.node if needed.intersection(node.output)]
    read = {name for node in remaining for name in _read_by(node)}
    constant = {name for node in model.graph.node if node.op_type == "Constant" for name in node.output} & read
    _keep(model.graph.node, lambda node: not (needed | constant).isdisjoint(node.output))
    _keep(model.graph.initializer, lambda tensor: tensor.name in read)
    _keep(model.graph.input, lambda value: value.name in read)
    _keep(model.graph.output, lambda value: value.name in outputs)
    for output in set(outputs) - {value.name for value in model.graph.output}:
        known = [value for value in model.graph.value_info if value.name == output]
        model.graph.output.extend(known or [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)])
    data: bytes = with_standard_operators(model).SerializeToString()
    return data


def _read_by(node: onnx.NodeProto) -> Iterator[str]:
    """Yield the names of the values that a node and its subgraphs read."""
    yield from node.input
    for attribute in node.attribute:
        for inner in attribute.g.node:
            yield from _read_by(inner)
        yield from (value.name for value in attribute.g.output)


def _check_graph(model: onnx.ModelProto) -> None:
    """Raise ModelError if a graph is too large, or has sparse weights or unprintable names."""
    graph = model.graph
    if len(graph.node) > MAX_NODES:
        raise ModelError(f"{len(graph.node)} nodes; at most {MAX_NODES} are allowed")
    if graph.sparse_initializer:
        raise ModelError("sparse weights are not supported")
    entries = (*graph.input, *graph.output, *graph.initializer)
    _check_text(graph.name, model.producer_name, model.producer_version, *(value.name for value in entries))


def _nodes_and_constants(graph: onnx.GraphProto, reader: TensorReader) -> tuple[list[Node], dict[str, np.ndarray]]:
    """Return the nodes of a graph, and its weights together with the values of its Constant nodes."""
    constants: dict[str, np.ndarray] = {}
    for tensor in graph.initializer:
        with contextlib.suppress(UnknownTypeError):
            constants[tensor.name] = reader.read(tensor)
    nodes = []
    for node in (_node(proto, reader) for proto in graph.node):
        value = next((node.attributes[name] for name in _CONSTANT_VALUES if name in node.attributes), None)
        if node.op == "Constant" and value is not None and not isinstance(value, str):
            constants.setdefault(node.outputs[0], np.asarray(value))
        else:
            nodes.append(node)
    return nodes, constants


def _inputs_of(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    """Return the inputs, excluding weights, which old files also list as inputs; raise ModelError if there are no
    inputs or outputs."""
    weights = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in weights]
    for kind, values in (("input", inputs), ("output", graph.output)):
        if not values:
            raise ModelError(f"it has no {kind}")
    return inputs


def _graph(model: onnx.ModelProto, path: Path) -> Graph:
    graph = model.graph
    opset = max((entry.version for entry in model.opset_import if entry.domain in _ONNX_DOMAINS), default=0)
    if opset < MIN_OPSET and any(node.domain in _ONNX_DOMAINS for node in graph.node):
        raise ModelError(f"its ONNX opset is {opset}; expected {MIN_OPSET} or later")
    model = without_functions(model)
    graph = model.graph
    _check_graph(model)
    nodes, constants = _nodes_and_constants(graph, TensorReader(path.parent))
    inputs = _inputs_of(graph)
    outputs = tuple(value.name for value in graph.output)
    made_by = f"{model.producer_name} {model.producer_version}".strip()
    is_quantized = any(word in node.op for node in nodes for word in ("Quantize", "QLinear", "QGemm"))
    scores = frozenset(value.name for value in graph.output if _may_be_scores(value, is_quantized))
    return Graph(
        name=graph.name or path.stem,
        nodes=tuple(nodes),
        constants=constants,
        inputs=tuple(map(_input, inputs)),
        outputs=outputs,
        scores=scores,
        opset=opset,
        made_by=made_by,
        metadata={entry.key: entry.value for entry in model.metadata_props},
        texts=_texts(graph),
        path=path,
        stripped=strip(model, constants),
    )


def _texts(graph: onnx.GraphProto) -> dict[str, tuple[str, ...]]:
    """Return the text constants, such as class names."""
    from onnx import TensorProto

    tensors = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant":
            tensors |= {name: entry.t for entry in node.attribute if entry.name == "value" for name in node.output}
    return {
        name: tuple(item.decode("utf-8", "backslashreplace") for item in tensor.string_data)
        for name, tensor in tensors.items()
        if tensor.data_type == TensorProto.STRING
    }


def _may_be_scores(value: onnx.ValueInfoProto, is_quantized: bool) -> bool:
    """Return True unless the type of an output is used only for indices and labels."""
    from onnx import TensorProto

    scores = [TensorProto.UNDEFINED, TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE]
    scores += [TensorProto.INT8, TensorProto.UINT8] if is_quantized else []
    return not value.type.HasField("tensor_type") or value.type.tensor_type.elem_type in scores


def _check_text(*names: object) -> None:
    """Raise ModelError if a name is not text: protobuf returns bytes for invalid UTF-8."""
    if not all(isinstance(name, str) for name in names):
        raise ModelError("contains a name that is not valid text; the file is corrupt or not ONNX")


def _input(value: onnx.ValueInfoProto) -> GraphInput:
    from onnx import TensorProto

    tensor = value.type.tensor_type
    dtypes: dict[int, Any] = {
        TensorProto.FLOAT: np.float32,
        TensorProto.FLOAT16: np.float16,
        TensorProto.DOUBLE: np.float64,
        TensorProto.UINT8: np.uint8,
        TensorProto.INT8: np.int8,
        TensorProto.INT32: np.int32,
        TensorProto.INT64: np.int64,
    }
    if not tensor.HasField("shape"):
        raise ModelError(f"its input {value.name!r} has no shape")
    sizes = tuple(size.dim_value if size.dim_value > 0 else None for size in tensor.shape.dim)
    known = tensor.elem_type in dtypes
    is_known = tensor.elem_type in TensorProto.DataType.values()
    type_name = TensorProto.DataType.Name(tensor.elem_type).lower() if is_known else str(tensor.elem_type)
    return GraphInput(value.name, sizes, np.dtype(dtypes[tensor.elem_type]) if known else None, type_name)


def _node(node: onnx.NodeProto, reader: TensorReader) -> Node:
    _check_text(node.op_type, node.domain, node.name, *node.input, *node.output)
    op = node.op_type if node.domain in _ONNX_DOMAINS else f"{node.domain}.{node.op_type}"
    if not any(node.output):
        raise ModelError(f"node {node.name!r} ({op}): it has no output")
    plain = Node(op, node.name, tuple(node.input), tuple(node.output), {})
    try:
        attributes = {entry.name: _attribute(entry, reader) for entry in node.attribute}
    except ModelError as error:
        raise ModelError(f"{plain}: {error}") from None
    branches = [value for value in attributes.values() if isinstance(value, Branch)]
    captured = dict.fromkeys(name for branch in branches for name in branch.captured())
    return Node(op, node.name, (*plain.inputs, *captured), plain.outputs, attributes)


def _branch(graph: onnx.GraphProto, reader: TensorReader) -> Branch:
    if len(graph.node) > MAX_NODES:
        raise ModelError(f"{len(graph.node)} nodes; at most {MAX_NODES} are allowed")
    constants: dict[str, np.ndarray] = {}
    for tensor in graph.initializer:
        with contextlib.suppress(UnknownTypeError):
            constants[tensor.name] = reader.read(tensor)
    nodes = tuple(_node(node, reader) for node in graph.node)
    return Branch(nodes, constants, tuple(value.name for value in graph.output))


def _attribute(entry: onnx.AttributeProto, reader: TensorReader) -> Attribute:
    from onnx import AttributeProto

    if entry.type == AttributeProto.INT:
        return entry.i
    if entry.type == AttributeProto.FLOAT:
        return entry.f
    if entry.type == AttributeProto.STRING:
        return entry.s.decode("utf-8", "backslashreplace")
    if entry.type == AttributeProto.INTS:
        return tuple(entry.ints)
    if entry.type == AttributeProto.FLOATS:
        return tuple(entry.floats)
    if entry.type == AttributeProto.STRINGS:
        return tuple(item.decode("utf-8", "backslashreplace") for item in entry.strings)
    if entry.type == AttributeProto.TENSOR:
        with contextlib.suppress(UnknownTypeError):
            return reader.read(entry.t)
    if entry.type == AttributeProto.GRAPH and entry.name in ("then_branch", "else_branch"):
        return _branch(entry.g, reader)
    return f"<{AttributeProto.AttributeType.Name(entry.type).lower()}>"  # for example, the body of a loop

"""Requests and responses of the Open Inference Protocol, version 2, independent of HTTP and of the network.

A body is JSON, optionally followed by the raw bytes of tensors; a header specifies the length of the JSON. It is parsed
into records of known fields: unknown fields are skipped without allocating memory, and the numbers of a tensor remain
text until its shape has been checked. `tensors` cites the specifications; `classification` is Triton's extension of
that name.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec
import numpy as np

from .signature import TensorSpec
from .tensors import (
    ProtocolError,
    TooManyExamples,
    from_bytes,
    from_json,
    parse_datatype,
    split_elements,
    to_bytes,
    to_json,
)

MAX_ID = 200  # maximum number of characters in an id
MAX_SHAPE = 200  # maximum number of characters in the JSON text of a shape
_Count = Annotated[int, msgspec.Meta(ge=0)]


@dataclass(frozen=True)
class RequestedOutput:
    """An output requested by a client, as raw bytes or as JSON; `classes` is the requested number of
    "score:index:label" entries."""

    name: str
    binary: bool
    classes: int = 0


@dataclass(frozen=True)
class InferRequest:
    """A parsed request: its id (or None), its tensors, keyed by name, and the requested outputs."""

    id: str | None
    inputs: dict[str, np.ndarray]
    outputs: tuple[RequestedOutput, ...]


@dataclass(frozen=True)
class InferResponse:
    """A response as bytes; `json_length` is the length of its JSON if raw tensors follow, otherwise None."""

    body: bytes
    json_length: int | None = field(default=None)


class _InputParameters(msgspec.Struct, frozen=True):
    binary_data_size: _Count | None = None


class _Input(msgspec.Struct, frozen=True):
    name: str
    datatype: str
    shape: msgspec.Raw
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    parameters: _InputParameters = _InputParameters()


class _OutputParameters(msgspec.Struct, frozen=True):
    binary_data: bool | None = None
    classification: _Count = 0


class _Output(msgspec.Struct, frozen=True):
    name: str
    parameters: _OutputParameters = _OutputParameters()


class _Parameters(msgspec.Struct, frozen=True):
    binary_data_output: bool = False


class _Request(msgspec.Struct, frozen=True):
    inputs: list[_Input]
    id: Annotated[str, msgspec.Meta(max_length=MAX_ID)] | None = None
    outputs: list[_Output] | None = None
    parameters: _Parameters = _Parameters()


_REQUEST = msgspec.json.Decoder(_Request)
_SHAPE = msgspec.json.Decoder(list[int])
_TEXTS = msgspec.json.Decoder(list[str | list[str]])


def parse_request(
    body: bytes,
    json_length: int | None,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    max_examples: int,
) -> InferRequest:
    """Parse a request for a network with these inputs and outputs. Raises ProtocolError if it is malformed.

    `json_length` is the length of the JSON at the start of the body, or None if the complete body is JSON. Raises
    TooManyExamples if there are more than `max_examples`.
    """
    length = len(body) if json_length is None else json_length
    if not 0 <= length <= len(body):
        raise ProtocolError(f"Inference-Header-Content-Length is {json_length}, but the body has {len(body)} bytes")
    raw = memoryview(body)
    request = _decode(raw[:length])
    raw = raw[length:]
    specs = {spec.name: spec for spec in inputs}
    known = {**{spec.other_name: spec for spec in inputs if spec.other_name}, **specs}
    tensors: dict[str, np.ndarray] = {}
    for position, item in enumerate(request.inputs):
        spec = known.get(item.name)
        if spec is None or spec.name in tensors:
            problem = "is not known" if spec is None else "is given twice"
            raise ProtocolError(f"input {item.name[:100]!r} {problem}; the model reads {', '.join(specs)}")
        tensors[spec.name], raw = _read_input(item, spec, f"inputs[{position}]", raw, max_examples)
    if missing := [name for name in specs if name not in tensors]:
        raise ProtocolError(f"inputs are missing: {', '.join(missing)}")
    if len(raw):
        raise ProtocolError(f"{len(raw)} bytes follow the last tensor")
    return InferRequest(request.id, tensors, _requested(request, outputs))


@dataclass(frozen=True)
class InferAnswer:
    """The content of a response: its leading fields, the tensors, keyed by name, and their labels, if any."""

    head: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray]
    labels: Mapping[str, Sequence[str]]


def render_response(request: InferRequest, answer: InferAnswer, specs: Sequence[TensorSpec]) -> InferResponse:
    """Return a response that contains the requested outputs from `specs`."""
    datatypes = {spec.name: spec.datatype for spec in specs}
    outputs = []
    tails = []
    for requested in request.outputs:
        values = answer.arrays[requested.name]
        datatype = datatypes[requested.name]
        if requested.classes:
            values, datatype = _classification(values, answer.labels, requested), "BYTES"
        record: dict[str, Any] = {"name": requested.name, "datatype": datatype, "shape": list(values.shape)}
        if requested.binary:
            tails.append(to_bytes(values))
            record["parameters"] = {"binary_data_size": len(tails[-1])}
        else:
            record["data"] = msgspec.Raw(to_json(values))
        outputs.append(record)
    identity = {} if request.id is None else {"id": request.id}
    text = msgspec.json.encode({**answer.head, **identity, "outputs": outputs})
    return InferResponse(text + b"".join(tails), len(text) if tails else None)


def _decode(text: memoryview) -> _Request:
    try:
        return _REQUEST.decode(text)
    except RecursionError:
        raise ProtocolError("the JSON is nested too deeply") from None
    except msgspec.ValidationError as error:
        raise ProtocolError(f"the request: {str(error)[:200]}") from None
    except (ValueError, msgspec.DecodeError) as error:  # ValueError includes UnicodeDecodeError
        raise ProtocolError(f"not valid JSON: {str(error)[:100]}") from None


def _read_input(
    item: _Input, spec: TensorSpec, where: str, raw: memoryview, max_examples: int
) -> tuple[np.ndarray, memoryview]:
    """Return the values of an input and the remaining raw bytes; pictures are returned as an array of file contents
    [N]."""
    if item.datatype == "BYTES" and spec.takes_pictures:
        return _read_pictures(item, where, raw, max_examples)
    shape = _read_shape(bytes(item.shape), spec, where)
    if shape[0] > max_examples:
        raise TooManyExamples(f"{shape[0]} inputs; a request may contain at most {max_examples}")
    dtype = parse_datatype(item.datatype, where)
    size = item.parameters.binary_data_size
    if size is None:
        if item.data is msgspec.UNSET:
            raise ProtocolError(f"{where}: either data or binary_data_size is required")
        return from_json(bytes(item.data), shape, dtype, where), raw
    if item.data is not msgspec.UNSET or size > len(raw):
        raise ProtocolError(
            f"{where}: binary_data_size must be the number of bytes after the JSON, and cannot be combined with data"
        )
    return from_bytes(raw[:size], shape, dtype, where), raw[size:]


def _read_pictures(item: _Input, where: str, raw: memoryview, max_examples: int) -> tuple[np.ndarray, memoryview]:
    """Return the picture files in a BYTES tensor [N] or [N, 1]: raw elements, or base64 in JSON."""
    try:
        shape = _SHAPE.decode(bytes(item.shape)) if len(item.shape) <= MAX_SHAPE else []
    except (ValueError, msgspec.DecodeError):
        shape = []
    if not shape or shape[0] < 1 or shape[1:] not in ([], [1]):
        raise ProtocolError(f"{where}: pictures sent as BYTES must have the shape [N] or [N, 1] with N >= 1")
    if shape[0] > max_examples:
        raise TooManyExamples(f"{shape[0]} inputs; a request may contain at most {max_examples}")
    size = item.parameters.binary_data_size
    if size is None:
        files = [] if item.data is msgspec.UNSET else _from_base64(bytes(item.data), shape[0], where)
    elif item.data is not msgspec.UNSET or size > len(raw):
        raise ProtocolError(f"{where}: binary_data_size must be the number of bytes after the JSON")
    else:
        files, raw = split_elements(raw[:size], where), raw[size:]
    if len(files) != shape[0]:
        raise ProtocolError(f"{where}: contains {len(files)} pictures, but its shape requires {shape[0]}")
    values = np.empty(len(files), object)
    values[:] = files
    return values, raw


def _from_base64(text: bytes, count: int, where: str) -> list[bytes]:
    """Parse a list of `count` strings, or of `count` lists of one string each."""
    if text.count(b'"') != 2 * count or text.count(b"[") > count + 1:  # checked before memory is allocated
        raise ProtocolError(f"{where}: data is not a list of {count} base64 strings, as its shape requires")
    try:
        words = _TEXTS.decode(text)
        nested = [word for item in words for word in (item if isinstance(item, list) else [item])]
        return [base64.b64decode(word, validate=True) for word in nested]
    except (ValueError, msgspec.DecodeError):
        raise ProtocolError(
            f"{where}: pictures in JSON must be base64 strings; alternatively, send them as raw bytes"
        ) from None


def _read_shape(text: bytes, spec: TensorSpec, where: str) -> tuple[int, ...]:
    """Parse a shape and check that it is valid for the input."""
    expected = f"expected [N, {', '.join(map(str, spec.shape[1:]))}], N from 1 up"
    try:
        shape = tuple(_SHAPE.decode(text)) if len(text) <= MAX_SHAPE else ()
    except (ValueError, msgspec.DecodeError):
        shape = ()
    if not shape or shape[0] < 1 or shape[1:] != spec.shape[1:]:
        shape_text = text.decode("utf-8", "replace") if len(text) <= MAX_SHAPE else "too long"
        raise ProtocolError(f"{where}: {spec.name} has the shape {' '.join(shape_text.split())}; {expected}")
    return shape


def _requested(request: _Request, specs: Sequence[TensorSpec]) -> tuple[RequestedOutput, ...]:
    known = [spec.name for spec in specs]
    binary = request.parameters.binary_data_output
    if not request.outputs:  # return all outputs if none are selected
        return tuple(RequestedOutput(name, binary) for name in known)
    requested: dict[str, RequestedOutput] = {}
    for output in request.outputs:
        if output.name not in known or output.name in requested:
            raise ProtocolError(f"output {output.name[:100]!r} is unknown or requested twice; available: {known}")
        options = output.parameters
        is_binary = binary if options.binary_data is None else options.binary_data
        requested[output.name] = RequestedOutput(output.name, is_binary, options.classification)
    return tuple(requested.values())


def _classification(scores: np.ndarray, known: Mapping[str, Sequence[str]], wanted: RequestedOutput) -> np.ndarray:
    """Return the classes with the highest scores [N, C], as strings [N, count]. Raises ProtocolError if the output has
    no classes."""
    labels = known.get(wanted.name)
    if labels is None:
        raise ProtocolError(f"output {wanted.name!r} is not a distribution over classes")
    scores = scores.reshape(len(scores), -1)
    best = np.argsort(-scores, axis=1, kind="stable")[:, : wanted.classes]
    texts = [[f"{row[index]:f}:{index}:{labels[index]}" for index in indices] for row, indices in zip(scores, best)]
    return np.array(texts, object)

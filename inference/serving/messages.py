"""Inference requests and responses of the Open Inference Protocol, version 2. Nothing here knows of HTTP or a network.

A body is JSON, perhaps followed by the raw bytes of tensors; a header has the length of the JSON. Sources: see
`tensors`, and for `classification` Triton's extension of that name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .signature import TensorSpec
from .tensors import ProtocolError, from_bytes, from_json, parse_datatype, parse_shape, to_bytes, to_json

MAX_ID = 200  # characters


@dataclass(frozen=True)
class RequestedOutput:
    """An output that a client asks for: as raw bytes or as JSON; `classes` asks for that many "score:index:label"."""

    name: str
    binary: bool
    classes: int = 0


@dataclass(frozen=True)
class InferRequest:
    """A request that was parsed: its id (None where it has none), its tensors by name, and the outputs wanted."""

    id: str | None
    inputs: dict[str, np.ndarray]
    outputs: tuple[RequestedOutput, ...]


@dataclass(frozen=True)
class InferResponse:
    """A response as bytes; `json_length` is that of the JSON at its beginning where raw tensors follow, else None."""

    body: bytes
    json_length: int | None = field(default=None)


def parse_request(
    body: bytes, json_length: int | None, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]
) -> InferRequest:
    """Parse a request for a network that has these inputs and outputs; ProtocolError says what is wrong with it.

    `json_length` is that of the JSON at the beginning of the body, None for all of it.
    """
    if json_length is not None and not 0 <= json_length <= len(body):
        raise ProtocolError(f"Inference-Header-Content-Length is {json_length}, but the body has {len(body)} bytes")
    document = parse_json(body[:json_length])
    raw = memoryview(body)[len(body) if json_length is None else json_length :]
    fields = _object(document, "the request")
    identifier = fields.get("id")
    if identifier is not None and (not isinstance(identifier, str) or len(identifier) > MAX_ID):
        raise ProtocolError(f"id must be a text of at most {MAX_ID} characters")
    parameters = _object(fields.get("parameters", {}), "parameters")
    tensors: dict[str, np.ndarray] = {}
    known = [spec.name for spec in inputs]
    for position, item in enumerate(_list(fields.get("inputs"), "inputs")):
        name, values, raw = _input(item, f"inputs[{position}]", raw)
        if name not in known or name in tensors:
            what = "is given twice" if name in tensors else "is not known"
            raise ProtocolError(f"input {name[:100]!r} {what}; the model reads {', '.join(known)}")
        tensors[name] = values
    if missing := [name for name in known if name not in tensors]:
        raise ProtocolError(f"inputs are missing: {', '.join(missing)}")
    if len(raw):
        raise ProtocolError(f"{len(raw)} bytes follow the last tensor")
    return InferRequest(identifier, tensors, _outputs(fields, parameters, outputs))


def parse_json(text: bytes) -> Any:
    """A JSON document; ProtocolError for what is none, and for NaN and infinity, which JSON does not have."""
    try:
        return json.loads(text, parse_constant=_no_number)
    except RecursionError:
        raise ProtocolError("the JSON is nested too deeply") from None
    except ValueError as error:
        raise ProtocolError(f"not valid JSON: {str(error)[:100]}") from None


@dataclass(frozen=True)
class InferAnswer:
    """Content of a response: its first fields, the tensors by name, and the labels of those that have any."""

    head: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray]
    labels: Mapping[str, Sequence[str]]


def render_response(request: InferRequest, answer: InferAnswer, specs: Sequence[TensorSpec]) -> InferResponse:
    """The response with the outputs that a request wants, of those in `specs`."""
    datatypes = {spec.name: spec.datatype for spec in specs}
    outputs = []
    tails = []
    for wanted in request.outputs:
        values = answer.arrays[wanted.name]
        datatype = datatypes[wanted.name]
        if wanted.classes:
            values, datatype = _classification(values, answer.labels, wanted), "BYTES"
        record: dict[str, Any] = {"name": wanted.name, "datatype": datatype, "shape": list(values.shape)}
        if wanted.binary:
            tails.append(to_bytes(values))
            record["parameters"] = {"binary_data_size": len(tails[-1])}
        else:
            record["data"] = to_json(values)
        outputs.append(record)
    identity = {} if request.id is None else {"id": request.id}
    text = json.dumps({**answer.head, **identity, "outputs": outputs}, allow_nan=False).encode()
    return InferResponse(text + b"".join(tails), len(text) if tails else None)


def _input(item: Any, where: str, raw: memoryview) -> tuple[str, np.ndarray, memoryview]:
    """An input's name and values, and the raw bytes that are left."""
    fields = _object(item, where)
    name = fields.get("name")
    if not isinstance(name, str):
        raise ProtocolError(f"{where}: name must be a text")
    shape = parse_shape(fields.get("shape"), where)
    dtype = parse_datatype(fields.get("datatype"), where)
    size = _object(fields.get("parameters", {}), f"{where}.parameters").get("binary_data_size")
    if size is None:
        return name, from_json(fields.get("data"), shape, dtype, where), raw
    if "data" in fields or type(size) is not int or not 0 <= size <= len(raw):
        raise ProtocolError(
            f"{where}: binary_data_size must be a number of bytes that follow the JSON, without data beside it"
        )
    return name, from_bytes(raw[:size], shape, dtype, where), raw[size:]


def _outputs(
    fields: Mapping[str, Any], parameters: Mapping[str, Any], specs: Sequence[TensorSpec]
) -> tuple[RequestedOutput, ...]:
    known = [spec.name for spec in specs]
    binary = _flag(parameters.get("binary_data_output", False), "binary_data_output")
    asked = fields.get("outputs")
    if not asked:  # all of them
        return tuple(RequestedOutput(name, binary) for name in known)
    wanted: list[RequestedOutput] = []
    for position, item in enumerate(_list(asked, "outputs")):
        output = _object(item, f"outputs[{position}]")
        name = output.get("name")
        if not isinstance(name, str) or name not in known or name in [other.name for other in wanted]:
            raise ProtocolError(f"output {str(name)[:100]!r} is not known, or asked for twice; there are {known}")
        options = _object(output.get("parameters", {}), f"outputs[{position}].parameters")
        classes = options.get("classification", 0)
        if type(classes) is not int or classes < 0:
            raise ProtocolError("classification must be a number of classes")
        wanted.append(RequestedOutput(name, _flag(options.get("binary_data", binary), "binary_data"), classes))
    return tuple(wanted)


def _classification(scores: np.ndarray, known: Mapping[str, Sequence[str]], wanted: RequestedOutput) -> np.ndarray:
    """The classes with the highest scores [N, C], as texts [N, count]; ProtocolError for what has no classes."""
    labels = known.get(wanted.name)
    if labels is None:
        raise ProtocolError(f"output {wanted.name!r} has no classes")
    scores = scores.reshape(len(scores), -1)
    best = np.argsort(-scores, axis=1, kind="stable")[:, : wanted.classes]
    texts = [[f"{row[index]:f}:{index}:{labels[index]}" for index in chosen] for row, chosen in zip(scores, best)]
    return np.array(texts, object)


def _flag(value: Any, name: str) -> bool:
    if not isinstance(value, bool):
        raise ProtocolError(f"{name} must be true or false")
    return value


def _object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ProtocolError(f"{where} must be a JSON object")
    return value


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise ProtocolError(f"{where} must be a list")
    return value


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number of JSON")

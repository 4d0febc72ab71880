"""The addresses of a server: the Open Inference Protocol's, `/classify` for pictures, `/metrics`, and a page."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable
from importlib import resources
from typing import Any, TypeVar

from fastapi import APIRouter, FastAPI, HTTPException
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from ...models.checks import describe_shape
from ...models.errors import InputError
from ...models.inputs import ImageInput
from ...version import __version__
from .answering import Server, as_status
from .bodies import BodyError, files_of
from .messages import InferAnswer, InferRequest, InferResponse, parse_request, render_response
from .settings import VERSION
from .tensors import ProtocolError
from .workers import InputAnswer

JSON_LENGTH = "Inference-Header-Content-Length"
EXTENSIONS = ("binary_tensor_data", "classification")
LARGE_BODY = 1 << 16  # bytes, from which on a body is parsed beside other requests
MAX_FILES = 1000  # of one form

# Nothing is loaded from anywhere; the page asks this server alone.
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src blob:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)

Value = TypeVar("Value")


def add_routes(app: FastAPI) -> None:
    """Add all addresses to an application whose state has a `server`."""
    for router in (_health, _protocol, _own):
        app.include_router(router)


_health = APIRouter(tags=["health"])
_protocol = APIRouter(tags=["Open Inference Protocol"])
_own = APIRouter(tags=["trninfer"])


@_health.get("/v2/health/live")
async def live() -> dict[str, bool]:
    """The server runs."""
    return {"live": True}


@_health.get("/v2/health/ready")
async def ready(request: Request) -> JSONResponse:
    """The model is ready to answer; 503 while it is not."""
    is_ready = _server(request).is_ready
    return JSONResponse({"ready": is_ready}, 200 if is_ready else 503)


@_health.get("/v2/models/{name}/ready")
@_health.get("/v2/models/{name}/versions/{version}/ready")
async def model_ready(request: Request, name: str, version: str = VERSION) -> JSONResponse:
    """The same of a model by name."""
    is_ready = _model(request, name, version).is_ready
    return JSONResponse({"name": name, "ready": is_ready}, 200 if is_ready else 503)


@_protocol.get("/v2")
async def server_metadata() -> dict[str, Any]:
    """The server, and the extensions of the protocol that it has."""
    return {"name": "trninfer", "version": __version__, "extensions": list(EXTENSIONS)}


@_protocol.get("/v2/models/{name}")
@_protocol.get("/v2/models/{name}/versions/{version}")
async def model_metadata(request: Request, name: str, version: str = VERSION) -> dict[str, Any]:
    """The model's tensors."""
    signature = _model(request, name, version).signature
    return {
        "name": name,
        "versions": [VERSION],
        "platform": "trninfer_nki",
        "inputs": [spec.to_dict() for spec in signature.inputs],
        "outputs": [spec.to_dict() for spec in signature.outputs],
    }


@_protocol.post("/v2/models/{name}/infer")
@_protocol.post("/v2/models/{name}/versions/{version}/infer")
async def infer(request: Request, name: str, version: str = VERSION) -> Response:
    """Answer tensors with tensors."""
    server = _model(request, name, version)
    deadline = time.monotonic() + server.settings.timeout
    with server.bodies.hold() as lease:
        body = await _read(server.bodies.read(request, lease, server.settings.timeout))
        length = request.headers.get(JSON_LENGTH)
        if len(body) > LARGE_BODY:
            asked, sources = await run_in_threadpool(_parse, server, body, length)
        else:
            asked, sources = _parse(server, body, length)
        answers = await server.answer(request, sources, deadline)
    given = [answer for answer in answers if isinstance(answer, InputAnswer)]
    if len(given) < len(answers):
        raise as_status(next(answer for answer in answers if isinstance(answer, Exception)))
    head = {"model_name": name, "model_version": VERSION, "parameters": server.batch_parameters(given)}
    signature = server.signature
    try:
        answer = InferAnswer(head, signature.arrays(given), signature.labels())
        return _rendered(render_response(asked, answer, signature.outputs))
    except ProtocolError as error:
        raise HTTPException(400, str(error)) from None


@_own.post("/classify")
async def classify(request: Request, top_k: int | None = None) -> JSONResponse:
    """Answer pictures: a body that is one, or the files of a form."""
    server = _server(request)
    network, settings = server.network, server.settings
    if not isinstance(network.input, ImageInput) or network.input.preprocess == "none":
        raise HTTPException(400, f"{server.name} reads no pictures; send tensors to /v2/models/{server.name}/infer")
    if top_k is not None and not 1 <= top_k <= max(1, len(network.answer_labels)):
        raise HTTPException(400, f"top_k is {top_k}; the model has {len(network.answer_labels)} labels")
    deadline = time.monotonic() + settings.timeout
    with server.bodies.hold() as lease:
        body = await _read(server.bodies.read(request, lease, settings.timeout))
        files = await _read(files_of(body, request.headers, min(MAX_FILES, settings.max_queue)))
        contents = [content for _, content in files]
        answers = await server.answer(request, contents, deadline, are_files=True)
    report = server.report([name for name, _ in files], answers, top_k)
    if report["predictions"]:
        return JSONResponse(report)
    failed = as_status(next(answer for answer in answers if isinstance(answer, Exception)))
    return JSONResponse({**report, "error": failed.detail}, failed.status_code, failed.headers)


@_own.get("/about")
async def about(request: Request) -> JSONResponse:
    """The model that is served, and where it runs."""
    server = _server(request)
    if not server.is_ready:
        raise HTTPException(503, "the model is not ready yet", {"Retry-After": "1"})
    shapes = {spec.name: describe_shape(spec.shape[1:]) for spec in server.signature.inputs}
    told = "; ".join(f"{name}: {shape}" for name, shape in shapes.items())
    reads = told if len(shapes) > 1 else next(iter(shapes.values()))
    return JSONResponse({**server.where(), "reads": reads, "labels": list(server.network.answer_labels)})


@_own.get("/metrics")
async def metrics(request: Request) -> Response:
    """Counts for Prometheus."""
    return Response(_server(request).metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


@_own.get("/", include_in_schema=False)
async def page() -> HTMLResponse:
    """A page to drop pictures on."""
    text = resources.files(__package__).joinpath("page.html").read_text(encoding="utf-8")
    return HTMLResponse(text, headers={"Content-Security-Policy": _POLICY})


def _server(request: Request) -> Server:
    server: Server = request.app.state.server
    return server


def _model(request: Request, name: str, version: str) -> Server:
    server = _server(request)
    if name != server.name or version != VERSION:
        raise HTTPException(404, f"no such model or version; {server.name}, version {VERSION}, is served")
    return server


def _parse(server: Server, body: bytes, json_length: str | None) -> tuple[InferRequest, list[Any]]:
    """A request, and its examples as the network reads them; HTTPException for what cannot be read."""
    if json_length is not None and not re.fullmatch(r"[0-9]{1,18}", json_length):
        raise HTTPException(400, f"{JSON_LENGTH} must be a whole number")
    signature = server.signature
    try:
        length = None if json_length is None else int(json_length)
        request = parse_request(body, length, signature.inputs, signature.outputs)
        return request, signature.sources(request.inputs)
    except (ProtocolError, InputError) as error:
        raise HTTPException(400, str(error)) from None


def _rendered(response: InferResponse) -> Response:
    if response.json_length is None:
        return Response(response.body, media_type="application/json")
    headers = {JSON_LENGTH: str(response.json_length)}
    return Response(response.body, media_type="application/octet-stream", headers=headers)


async def _read(reading: Awaitable[Value]) -> Value:
    try:
        return await reading
    except BodyError as error:
        headers = {"Retry-After": "1"} if error.status == 503 else {"Connection": "close"}
        raise HTTPException(error.status, str(error), headers) from None

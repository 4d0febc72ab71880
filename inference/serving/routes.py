"""Routes of a server: the Open Inference Protocol, pictures (`/classify`, `/detect`, `/segment`), metrics, and a web
page."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Mapping
from importlib import resources
from typing import Any, TypeVar

import msgspec
from fastapi import APIRouter, FastAPI, HTTPException
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from ...models.checks import describe_shape
from ...models.errors import ArgumentError
from ...models.inputs import ImageInput
from ...version import __version__
from .. import palette
from ..boxes import CONFIDENCE, IOU, MAX_DETECTIONS, check_limits
from ..detections import Detector
from ..predictions import MakePredictions
from ..segmenting import Segmenter
from .answering import Answer, Server, as_status
from .bodies import BodyError
from .decoding import FormTask, PictureTask, TensorTask
from .messages import InferAnswer, InferRequest, render_response
from .repository import Repository
from .settings import VERSION
from .tensors import ProtocolError
from .workers import InputAnswer

JSON_LENGTH = "Inference-Header-Content-Length"
EXTENSIONS = ("binary_tensor_data", "classification", "model_configuration", "model_repository", "statistics")
MAX_FILES = 1000  # maximum number of files per form
MAX_MAP_PIXELS = 64_000_000  # maximum total number of pixels of the maps in one response

# The page loads no external resources and sends requests only to this server.
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src blob:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)

Value = TypeVar("Value")


def add_routes(app: FastAPI) -> None:
    """Add all routes to an application whose state has a `server`."""
    for router in (_health, _protocol, _own):
        app.include_router(router)


_health = APIRouter(tags=["health"])
_protocol = APIRouter(tags=["Open Inference Protocol"])
_own = APIRouter(tags=["trninfer"])


@_health.get("/v2/health/live")
async def live() -> dict[str, bool]:
    """Report that the server is running."""
    return {"live": True}


@_health.get("/v2/health/ready")
async def ready(request: Request) -> JSONResponse:
    """Report that the models are ready; 503 otherwise."""
    is_ready = all(server.is_ready for server in _servers(request) if server.is_loaded)
    return JSONResponse({"ready": is_ready}, 200 if is_ready else 503)


@_health.get("/v2/models/{name}/ready")
@_health.get("/v2/models/{name}/versions/{version}/ready")
async def model_ready(request: Request, name: str, version: str = VERSION) -> JSONResponse:
    """Report that a model is ready."""
    is_ready = _model(request, name, version).is_ready
    return JSONResponse({"name": name, "ready": is_ready}, 200 if is_ready else 503)


@_protocol.get("/v2")
async def server_metadata() -> dict[str, Any]:
    """Return the server's name and protocol extensions."""
    return {"name": "trninfer", "version": __version__, "extensions": list(EXTENSIONS)}


@_protocol.get("/v2/models/stats")
async def all_statistics(request: Request) -> dict[str, Any]:
    """Return statistics of each model since the server started."""
    return {"model_stats": [server.statistics.to_dict(server.name, VERSION) for server in _servers(request)]}


@_protocol.get("/v2/models/{name}")
@_protocol.get("/v2/models/{name}/versions/{version}")
async def model_metadata(request: Request, name: str, version: str = VERSION) -> dict[str, Any]:
    """Return the model's tensors."""
    signature = _model(request, name, version).signature
    return {
        "name": name,
        "versions": [VERSION],
        "platform": "trninfer_nki",
        "inputs": [spec.to_dict() for spec in signature.inputs],
        "outputs": [spec.to_dict() for spec in signature.outputs],
    }


@_protocol.get("/v2/models/{name}/stats")
@_protocol.get("/v2/models/{name}/versions/{version}/stats")
async def model_statistics(request: Request, name: str, version: str = VERSION) -> dict[str, Any]:
    """Return statistics of one model."""
    return {"model_stats": [_model(request, name, version).statistics.to_dict(name, VERSION)]}


@_protocol.get("/v2/models/{name}/config")
@_protocol.get("/v2/models/{name}/versions/{version}/config")
async def model_config(request: Request, name: str, version: str = VERSION) -> dict[str, Any]:
    """Return the model's configuration in Triton's format."""
    server = _model(request, name, version)
    settings, signature = server.settings, server.signature
    return {
        "name": name,
        "platform": "trninfer_nki",
        "backend": "trninfer",
        "max_batch_size": settings.max_batch,
        "input": [spec.to_config() for spec in signature.inputs],
        "output": [spec.to_config() for spec in signature.outputs],
        "instance_group": [{"name": name, "kind": "KIND_MODEL", "count": settings.workers}],
        "dynamic_batching": {"max_queue_delay_microseconds": round(settings.max_delay * 1e6)},
    }


@_protocol.post("/v2/repository/index")
async def repository_index(request: Request) -> list[dict[str, str]]:
    """Return the server's models and whether they are ready."""
    return [{"name": server.name, "version": VERSION, **_state(server)} for server in _servers(request)]


def _state(server: Server) -> dict[str, str]:
    if not server.is_loaded:
        return {"state": "UNAVAILABLE", "reason": "unloaded"}
    return {"state": "READY", "reason": ""} if server.is_ready else {"state": "LOADING", "reason": "starting workers"}


@_protocol.post("/v2/repository/models/{name}/load")
async def load_model(request: Request, name: str) -> JSONResponse:
    """Load a model that was unloaded; the response is sent when it is ready."""
    error = await _controlled(request).load(_model(request, name, VERSION))
    if error is not None:
        raise HTTPException(400, f"{name} cannot be loaded: {error}")
    return JSONResponse({})


@_protocol.post("/v2/repository/models/{name}/unload")
async def unload_model(request: Request, name: str) -> JSONResponse:
    """Unload a model after its accepted inputs have been processed."""
    await _controlled(request).unload(_model(request, name, VERSION))
    return JSONResponse({})


def _controlled(request: Request) -> Repository:
    """Return the repository. Raises HTTPException if clients are not permitted to change it."""
    repository: Repository | None = getattr(request.app.state, "repository", None)
    if repository is None or not _server(request).settings.model_control:
        raise HTTPException(
            403, "models can be loaded and unloaded only if the server was started with --model-control"
        )
    return repository


@_protocol.post("/v2/models/{name}/infer")
@_protocol.post("/v2/models/{name}/versions/{version}/infer")
async def infer(request: Request, name: str, version: str = VERSION) -> Response:
    """Run the network on the tensors of a request and return its outputs as tensors."""
    server = _model(request, name, version)
    deadline = time.monotonic() + server.settings.timeout
    with server.bodies.hold() as lease:
        body = await _read(server.bodies.read(request, lease, server.settings.timeout))
        task = TensorTask(body, _json_length(request), server.settings.max_queue)
        del body
        parsed, sources = await server.read(task, deadline)
        del task
        answers = await server.answer(request, sources, deadline)
    predictions = [answer for answer in answers if isinstance(answer, InputAnswer)]
    if len(predictions) < len(answers):
        raise as_status(next(answer for answer in answers if isinstance(answer, Exception)))
    head = {"model_name": name, "model_version": VERSION, "parameters": server.batch_parameters(predictions)}
    try:
        return await run_in_threadpool(_render, server, parsed, predictions, head)
    except ProtocolError as error:
        raise HTTPException(400, str(error)) from None


@_own.post("/classify")
async def classify(request: Request, top_k: int | None = None, model: str | None = None) -> Response:
    """Classify pictures, sent as the body of the request or as the files of a form.

    If the server has several models, `model` selects one by name.
    """
    server = _server(request) if model is None else _model(request, model, VERSION)
    network = server.network
    if not isinstance(network.input, ImageInput) or network.input.preprocess == "none":
        raise HTTPException(
            400, f"{server.name} does not read pictures; send tensors to /v2/models/{server.name}/infer"
        )
    _check_finds(server, "/classify", "labels")
    if top_k is not None and not 1 <= top_k <= max(1, len(network.answer_labels)):
        raise HTTPException(400, f"top_k is {top_k}; the model has {len(network.answer_labels)} labels")
    deadline = time.monotonic() + server.settings.timeout
    names, _, answers = await _answer_pictures(request, server, deadline)
    return await _report(server, names, answers, server.labels(top_k))


@_own.post("/detect")
async def detect(
    request: Request,
    confidence: float = CONFIDENCE,
    iou: float = IOU,
    max_detections: int = MAX_DETECTIONS,
    model: str | None = None,
) -> Response:
    """Find the objects in pictures, sent as the body of the request or as the files of a form.

    If the server has several models, `model` selects one by name.
    """
    server = _server(request) if model is None else _model(request, model, VERSION)
    _check_finds(server, "/detect", "boxes")
    try:
        limits = check_limits(confidence, iou, max_detections)
    except ArgumentError as error:
        raise HTTPException(400, str(error)) from None
    deadline = time.monotonic() + server.settings.timeout
    names, pictures, answers = await _answer_pictures(request, server, deadline)
    sizes = await server.sizes(pictures, answers, deadline)
    return await _report(server, names, answers, Detector(limits, sizes))


@_own.post("/segment")
async def segment(request: Request, maps: bool = False, model: str | None = None) -> Response:
    """Find the area of each class in pictures, sent as the body of the request or as the files of a form.

    If the server has several models, `model` selects one by name. With `maps`, each prediction has `map_png`: the class
    of each pixel as a palette PNG, in base64.
    """
    server = _server(request) if model is None else _model(request, model, VERSION)
    _check_finds(server, "/segment", "a class for each pixel")
    deadline = time.monotonic() + server.settings.timeout
    names, pictures, answers = await _answer_pictures(request, server, deadline)
    sizes = await server.sizes(pictures, answers, deadline)
    if maps and (pixels := sum(width * height for width, height in sizes.values())) > MAX_MAP_PIXELS:
        raise HTTPException(413, f"maps of {pixels:,} pixels; the limit for a request is {MAX_MAP_PIXELS:,}")
    make = Segmenter(sizes, keeps_pixels=maps)
    return await _report(server, names, answers, make)


def _check_finds(server: Server, path: str, noun: str) -> None:
    """Raise HTTPException if pictures for this model must be sent to a different path."""
    right = server.picture_path
    if path != right:
        raise HTTPException(400, f"{server.name} does not predict {noun}; send pictures to {right}")


async def _answer_pictures(
    request: Request, server: Server, deadline: float
) -> tuple[list[str], list[bytes], list[Answer]]:
    """Return the names, contents and predictions of the pictures in a request."""
    settings = server.settings
    with server.bodies.hold() as lease:
        body = await _read(server.bodies.read(request, lease, settings.timeout))
        most = min(MAX_FILES, settings.max_queue)
        task = FormTask(body, request.headers.get("content-type", ""), most)
        files: list[tuple[str, bytes]] = await server.read(task, deadline)
        answers = await server.answer(request, [PictureTask(content) for _, content in files], deadline)
    return [name for name, _ in files], [content for _, content in files], answers


async def _report(server: Server, names: list[str], answers: list[Answer], make: MakePredictions) -> Response:
    """Return the predictions for pictures as JSON, with the status of the first failure if there are no predictions."""
    report = await run_in_threadpool(server.report, names, answers, make)
    if report["predictions"]:
        return await run_in_threadpool(_as_json, report)
    failed = as_status(next(answer for answer in answers if isinstance(answer, Exception)))
    return _as_json({**report, "error": failed.detail}, failed.status_code, failed.headers)


@_own.get("/about")
async def about(request: Request, model: str | None = None) -> JSONResponse:
    """Return the served model (selected by name if there are several) and its backend."""
    server = _server(request) if model is None else _model(request, model, VERSION)
    if not server.is_ready:
        raise HTTPException(503, "the model is not ready yet", {"Retry-After": "1"})
    shapes = {spec.name: describe_shape(spec.shape[1:]) for spec in server.signature.inputs}
    description = "; ".join(f"{name}: {shape}" for name, shape in shapes.items())
    reads = description if len(shapes) > 1 else next(iter(shapes.values()))
    document = {"reads": reads, "pictures": server.picture_path, "labels": list(server.network.answer_labels)}
    return JSONResponse({**server.where(), **document})


@_own.get("/metrics")
async def metrics(request: Request) -> Response:
    """Return Prometheus metrics."""
    return Response(_server(request).metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


@_own.get("/", include_in_schema=False)
async def page() -> HTMLResponse:
    """Return a page with drag-and-drop upload of pictures."""
    text = resources.files(__package__).joinpath("page.html").read_text(encoding="utf-8")
    return HTMLResponse(text.replace("/* palette */", palette.css(), 1), headers={"Content-Security-Policy": _POLICY})


def _server(request: Request) -> Server:
    server: Server = request.app.state.server
    return server


def _servers(request: Request) -> list[Server]:
    """Return all models of the server."""
    repository: Repository | None = getattr(request.app.state, "repository", None)
    return [_server(request)] if repository is None else repository.servers


def _model(request: Request, name: str, version: str) -> Server:
    servers = {server.name: server for server in _servers(request)}
    if name not in servers or version != VERSION:
        verb = "is" if len(servers) == 1 else "are"
        raise HTTPException(404, f"no such model or version; {', '.join(servers)}, version {VERSION}, {verb} served")
    return servers[name]


def _json_length(request: Request) -> int | None:
    """Return the length of the JSON according to the header of the request, or None if there is no such header."""
    header = request.headers.get(JSON_LENGTH)
    if header is None:
        return None
    if not re.fullmatch(r"[0-9]{1,18}", header):
        raise HTTPException(400, f"{JSON_LENGTH} must be an integer")
    return int(header)


def _render(server: Server, asked: InferRequest, answers: list[InputAnswer], head: dict[str, Any]) -> Response:
    signature = server.signature
    answer = InferAnswer(head, signature.arrays(answers), signature.labels())
    response = render_response(asked, answer, signature.outputs)
    if response.json_length is None:
        return Response(response.body, media_type="application/json")
    headers = {JSON_LENGTH: str(response.json_length)}
    return Response(response.body, media_type="application/octet-stream", headers=headers)


def _as_json(report: dict[str, Any], status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a report as a response. Predictions are serialised one by one, so that other threads can run in
    between."""
    predictions = [msgspec.Raw(msgspec.json.encode(prediction)) for prediction in report["predictions"]]
    body = msgspec.json.encode({**report, "predictions": predictions})
    return Response(body, status, headers, media_type="application/json")


async def _read(reading: Awaitable[Value]) -> Value:
    try:
        return await reading
    except BodyError as error:
        headers = {"Retry-After": "1"} if error.status == 503 else {"Connection": "close"}
        raise HTTPException(error.status, str(error), headers) from None

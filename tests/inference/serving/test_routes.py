"""The routes of a server, with stand-ins for its workers."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("fastapi")
from asgi import Response, ask
from fastapi import FastAPI
from small_detectors import detector
from small_inputs import write_model
from small_segmenters import save_colours
from trninfer.inference.serving import answering, routes
from trninfer.inference.serving.answering import Server
from trninfer.inference.serving.decoding import FormTask, PictureTask, SizeTask, TensorTask
from trninfer.inference.serving.gate import Gate
from trninfer.inference.serving.metrics import Metrics
from trninfer.inference.serving.settings import ServingSettings
from trninfer.inference.serving.signature import Signature
from trninfer.inference.serving.workers import InputAnswer
from trninfer.models import Dense, FeatureInput, Network, load_model, run_network, save_model
from trninfer.models.errors import InputError
from trninfer.runtime.backend import BackendInfo, KernelError
from trninfer.runtime.workers.pool import PoolStopped
from trninfer.runtime.workers.process import WorkerEnded
from trninfer.runtime.workers.worker import Hello

RANDOM = np.random.default_rng(0)
ROWS = RANDOM.standard_normal((3, 6)).astype(np.float32)


class Golden:
    """A pool that answers with the golden model, and decodes only `good`."""

    is_ready, rate, workers_ready = True, 1.0, 1

    def __init__(self, path: Path) -> None:
        self.model = load_model(path)

    def submit(self, source: Any) -> Any:
        return asyncio.ensure_future(self._answer(source))

    async def _answer(self, source: Any) -> Any:
        if isinstance(source, (TensorTask, FormTask)):
            return source.run(Signature(self.model.network))
        if isinstance(source, PictureTask):
            if source.content != b"good":
                raise InputError("no picture")
            return np.zeros(self.model.network.input.shape, np.float32)
        if source.max() > 1e9:
            raise KernelError("not finite")
        run = run_network(self.model.network, self.model.tensors, source[None])
        raw = run.logits[0] if self.model.network.output.scores == "raw" else None
        return InputAnswer(int(run.probabilities[0].argmax()), run.probabilities[0], 1, 12.5, raw)


def application(path: Path, **settings: Any) -> FastAPI:
    given = ServingSettings(path, max_batch=4, max_queue=8, max_bytes=1 << 20, **settings)
    server = Server(given, given.load(), Metrics())
    server.workers = Golden(path)  # type: ignore[assignment]
    server.decoders = Golden(path)  # type: ignore[assignment]
    server.hello = Hello(BackendInfo("sim", "trn2", "predicted", "predicted"), (), "here", 1, "0")
    app = FastAPI()
    app.state.server = server
    routes.add_routes(app)
    app.add_middleware(Gate, metrics=server.metrics, token=None, hosts=())
    return app


@pytest.fixture
def rows(feature_model: Path) -> FastAPI:
    return application(feature_model)


@pytest.fixture
def photos(picture_model: Path) -> FastAPI:
    return application(picture_model)


def test_health_follows_the_workers(rows: FastAPI) -> None:
    paths = ("/v2/health/ready", "/v2/models/tiny-ffnn/ready", "/v2/models/tiny-ffnn/versions/1/ready", "/about")
    assert [ask(rows, path).status for path in (*paths, "/v2/health/live")] == [200] * 5
    rows.state.server.workers.is_ready = False
    assert [ask(rows, path).status for path in (*paths, "/v2/health/live")] == [503] * 4 + [200]
    assert ask(rows, "/v2/health/ready").json() == {"ready": False}


@pytest.mark.parametrize("path", ["/v2/models/x", "/v2/models/x/ready", "/v2/models/tiny-ffnn/versions/2"])
def test_other_models_and_versions(rows: FastAPI, path: str) -> None:
    found = ask(rows, path)
    assert found.status == 404 and "tiny-ffnn, version 1, is served" in found.json()["detail"]


def test_metadata_of_inputs_and_outputs(rows: FastAPI, photos: FastAPI) -> None:
    found = ask(rows, "/v2/models/tiny-ffnn").json()
    assert found["inputs"] == [{"name": "input", "datatype": "FP32", "shape": [-1, 6]}]
    assert [output["name"] for output in found["outputs"]] == ["probabilities", "class_index", "label"]
    about = ask(rows, "/about").json()
    assert (about["reads"], about["labels"], about["latency_kind"]) == (
        "6 features", ["red", "green", "blue"], "predicted",
    )  # fmt: skip
    assert ask(photos, "/about").json()["reads"] == "an image of 1x16x16"
    assert set(ask(rows, "/v2").json()["extensions"]) == {
        "binary_tensor_data", "classification", "model_configuration", "model_repository", "statistics",
    }  # fmt: skip


def test_index_config_and_statistics_as_triton_has_them(rows: FastAPI) -> None:
    index = ask(rows, "/v2/repository/index", b"{}").json()
    assert index == [{"name": "tiny-ffnn", "version": "1", "state": "READY", "reason": ""}]
    config = ask(rows, "/v2/models/tiny-ffnn/config").json()
    assert (config["max_batch_size"], config["input"]) == (
        4,
        [{"name": "input", "data_type": "TYPE_FP32", "dims": [6]}],
    )
    assert config["output"][2] == {"name": "label", "data_type": "TYPE_STRING", "dims": [1]}
    infer(rows, ROWS)
    bad = ROWS.copy()
    bad[1] = 1e30
    infer(rows, bad)
    server = rows.state.server
    server.statistics.batch("worker", 3, [0.25, 0.25, 0.5], 2.0)
    for path in ("/v2/models/stats", "/v2/models/tiny-ffnn/stats", "/v2/models/tiny-ffnn/versions/1/stats"):
        (found,) = ask(rows, path).json()["model_stats"]
        parts = found["inference_stats"]
        assert (found["inference_count"], found["execution_count"]) == (3, 1) and found["last_inference"] > 1e12
        assert parts["queue"] == {"count": 3, "ns": 10**9} and parts["compute_infer"] == {"count": 3, "ns": 2 * 10**9}
        assert parts["success"]["count"] == parts["fail"]["count"] == 1 and parts["success"]["ns"] > 0
    assert ask(rows, "/v2/models/x/stats").status == ask(rows, "/v2/models/x/config").status == 404


def test_pictures_in_a_request_of_tensors(photos: FastAPI) -> None:
    def asked(files: list[bytes], shape: list[int], raw: bool = True) -> Response:
        content = b"".join(len(file).to_bytes(4, "little") + file for file in files)
        tensor: dict[str, Any] = {"name": "input", "datatype": "BYTES", "shape": shape}
        if not raw:
            tensor["data"] = [base64.b64encode(file).decode() for file in files]
        else:
            tensor["parameters"] = {"binary_data_size": len(content)}
        head = json.dumps({"inputs": [tensor]}).encode()
        headers = [(routes.JSON_LENGTH, str(len(head)))] if raw else []
        return ask(photos, "/v2/models/tiny-cnn/infer", head + (content if raw else b""), headers=headers)

    for raw, shape in ((True, [2]), (False, [2, 1])):
        found = asked([b"good", b"good"], shape, raw)
        outputs = {output["name"]: output for output in found.json()["outputs"]}
        assert found.status == 200 and outputs["class_index"]["shape"] == [2]
    assert asked([b"good", b"bad"], [2]).status == 422
    assert "contains 2 pictures, but its shape requires 3" in asked([b"good", b"good"], [3]).body.decode()
    assert "have the shape [N]" in asked([b"good"], [1, 2]).body.decode()
    assert "at most 8" in asked([b"good"] * 9, [9]).body.decode()


def test_tensors_go_by_the_names_of_their_file(tmp_path: Path) -> None:
    layers = (Dense("hidden", 6, 8, "relu"), Dense("head", 8, 3))
    network = Network("named", FeatureInput(6), layers, ("red", "green", "blue"))
    path = write_model(tmp_path / "named.safetensors", network, input_name="image", output_name="logits")
    app = application(path)
    metadata = ask(app, "/v2/models/named").json()
    assert metadata["inputs"][0]["name"] == "image"
    assert [output["name"] for output in metadata["outputs"]] == ["probabilities", "class_index", "label", "logits"]
    model = load_model(path)
    golden = run_network(model.network, model.tensors, ROWS)
    for name in ("image", "input"):
        tensor = {"name": name, "datatype": "FP32", "shape": [3, 6], "data": ROWS.ravel().tolist()}
        body = json.dumps({"inputs": [tensor], "outputs": [{"name": "logits"}]}).encode()
        (output,) = ask(app, "/v2/models/named/infer", body).json()["outputs"]
        assert np.allclose(np.reshape(output["data"], (3, 3)), golden.logits, atol=1e-6)
    assert np.abs(golden.logits - golden.probabilities).max() > 0.1


def infer(app: FastAPI, values: np.ndarray, *headers: tuple[str, str], **fields: Any) -> Response:
    tensor = {"name": "input", "datatype": "FP32", "shape": list(values.shape), "data": values.ravel().tolist()}
    return ask(app, "/v2/models/tiny-ffnn/infer", json.dumps({"inputs": [tensor], **fields}).encode(), headers=headers)


@pytest.mark.parametrize("large", [1, answering.LARGE_BODY])
def test_tensors_are_answered_with_tensors(rows: FastAPI, feature_model: Path, monkeypatch, large: int) -> None:
    monkeypatch.setattr(answering, "LARGE_BODY", large)
    model = load_model(feature_model)
    golden = run_network(model.network, model.tensors, ROWS).probabilities
    found = infer(rows, ROWS, id="mine").json()
    outputs = {output["name"]: output["data"] for output in found["outputs"]}
    assert np.allclose(np.reshape(outputs["probabilities"], (3, 3)), golden, atol=1e-6)
    assert outputs["class_index"] == golden.argmax(axis=1).tolist() and found["id"] == "mine"
    assert found["parameters"] == {"latency_kind": "predicted", "batch_us": 12.5, "batch_size": 1}
    assert (found["model_name"], found["model_version"]) == ("tiny-ffnn", "1")


def test_tensors_as_bytes(rows: FastAPI) -> None:
    size = {"binary_data_size": ROWS.nbytes}
    head = {"inputs": [{"name": "input", "datatype": "FP32", "shape": [3, 6], "parameters": size}]}
    text = json.dumps({**head, "outputs": [{"name": "probabilities", "parameters": {"binary_data": True}}]}).encode()
    headers = [(routes.JSON_LENGTH, str(len(text)))]
    found = ask(rows, "/v2/models/tiny-ffnn/infer", text + ROWS.tobytes(), headers=headers)
    length = int(found.headers[routes.JSON_LENGTH.lower()])
    assert found.headers["content-type"] == "application/octet-stream"
    assert np.frombuffer(found.body[length:], "<f4").reshape(3, 3).sum(axis=1) == pytest.approx([1, 1, 1])
    plain = infer(rows, ROWS)
    assert plain.headers["content-type"] == "application/json" and routes.JSON_LENGTH.lower() not in plain.headers


def test_one_input_that_fails_fails_a_request_of_tensors(rows: FastAPI) -> None:
    bad = ROWS.copy()
    bad[1] = 1e30
    found = infer(rows, bad)
    assert found.status == 422 and found.json()["detail"] == "not finite"
    for length in ("x", "-1", "9" * 19):
        assert infer(rows, ROWS, (routes.JSON_LENGTH, length)).status == 400
    assert infer(rows, ROWS[:, :5]).status == 400 and infer(rows, np.repeat(ROWS, 3, axis=0)).status == 413


def form(*contents: bytes) -> dict[str, Any]:
    parts = [
        b'--b\r\nContent-Disposition: form-data; name="f"; filename="%d"\r\n\r\n%b\r\n' % pair
        for pair in enumerate(contents)
    ]
    return {"body": b"".join(parts) + b"--b--\r\n", "headers": [("content-type", "multipart/form-data; boundary=b")]}


def classify(app: FastAPI, body: bytes, query: str = "", headers: Any = ()) -> Response:
    return ask(app, "/classify", body, headers=headers, query=query)


def test_pictures_are_answered_and_others_reported(photos: FastAPI) -> None:
    mixed = classify(photos, **form(b"good", b"bad"))
    assert mixed.status == 200 and [each["input"] for each in mixed.json()["predictions"]] == ["0"]
    assert mixed.json()["errors"] == [{"input": "1", "message": "no picture"}]
    alone = classify(photos, b"bad")
    assert (alone.status, alone.json()["error"], alone.json()["predictions"]) == (422, "no picture", [])
    assert classify(photos, b"good").json()["predictions"][0]["input"] == "picture"


@pytest.mark.parametrize(
    ("query", "status"), [("", 200), ("top_k=1", 200), ("top_k=10", 200), ("top_k=0", 400), ("top_k=11", 400)]
)
def test_how_many_labels_may_be_asked_for(photos: FastAPI, query: str, status: int) -> None:
    found = classify(photos, b"good", query)
    assert found.status == status
    if status == 400:
        assert "the model has 10 labels" in found.json()["detail"]
    else:
        assert len(found.json()["predictions"][0]["top"]) == int(query[6:] or 5)


def test_network_without_pictures_names_the_route_for_tensors(rows: FastAPI) -> None:
    found = classify(rows, b"good")
    assert found.status == 400 and "send tensors to /v2/models/tiny-ffnn/infer" in found.json()["detail"]


def test_bodies_that_are_not_read_close_the_connection(photos: FastAPI) -> None:
    large = classify(photos, b"x" * ((1 << 20) + 1))
    assert (large.status, large.headers["connection"]) == (413, "close")
    assert classify(photos, b"").status == 400 and photos.state.server.bodies._held == 0
    photos.state.server.bodies._held = 8 << 20
    busy = classify(photos, b"good")
    assert (busy.status, busy.headers["retry-after"]) == (503, "1") and "connection" not in busy.headers


def test_counts_are_by_route_and_the_page_asks_nobody_else(rows: FastAPI) -> None:
    ask(rows, "/v2/models/tiny-ffnn")
    text = ask(rows, "/metrics")
    assert text.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert b'endpoint="/v2/models/{name}",status="200"} 1.0' in text.body
    page = ask(rows, "/")
    assert page.status == 200 and page.headers["content-security-policy"].startswith("default-src 'none'")


class Detecting(Golden):
    """A pool of a detector, whose decoder accepts any picture and knows the size of `wide`."""

    async def _answer(self, source: Any) -> Any:
        if isinstance(source, SizeTask):
            return (64, 32) if source.content == b"wide" else None
        if isinstance(source, PictureTask):
            if source.content == b"bad":
                raise InputError("no picture")
            return np.zeros(self.model.network.input.shape, np.float32)
        if isinstance(source, FormTask):
            return await super()._answer(source)
        run = run_network(self.model.network, self.model.tensors, source[None])
        return InputAnswer(-1, run.scores[0], 1, 12.5)


def test_boxes_of_a_picture(tmp_path: Path) -> None:
    made = detector()
    save_model(tmp_path / "m.safetensors", made.network, made.tensors)
    app = application(tmp_path / "m.safetensors")
    server: Server = app.state.server
    server.decoders = server.workers = Detecting(tmp_path / "m.safetensors")  # type: ignore[assignment]
    found = ask(app, "/detect", b"wide").json()["predictions"][0]
    assert (found["width"], found["height"], found["batch_size"]) == (64, 32, 1)
    assert [(box["label"], box["x1"], box["x2"]) for box in found["boxes"]] == [("cat", 8, 24), ("dog", 36, 60)]
    few = ask(app, "/detect", b"wide", query="confidence=0.8").json()["predictions"][0]["boxes"]
    assert [box["label"] for box in few] == ["cat"]
    assert ask(app, "/detect", b"wide", query="iou=3").status == 400
    assert ask(app, "/detect", b"bad").status == 422
    refused = ask(app, "/classify", b"wide")
    assert refused.status == 400 and b"/detect" in refused.body


@pytest.mark.parametrize(("error", "status"), [(PoolStopped("the server stopped"), 503), (WorkerEnded("died"), 422)])
def test_a_model_that_is_unloaded_before_the_sizes_are_read(tmp_path: Path, error: Exception, status: int) -> None:
    class Stopping(Detecting):
        async def _answer(self, source: Any) -> Any:
            if isinstance(source, SizeTask):
                raise error
            return await super()._answer(source)

    made = detector()
    save_model(tmp_path / "m.safetensors", made.network, made.tensors)
    app = application(tmp_path / "m.safetensors")
    server: Server = app.state.server
    server.decoders = server.workers = Stopping(tmp_path / "m.safetensors")  # type: ignore[assignment]
    assert ask(app, "/detect", b"wide").status == status
    assert ask(app, "/detect", b"bad").status == 422  # its size is not requested


def test_maps_of_a_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save_colours(tmp_path / "m.safetensors")
    app = application(path)
    app.state.server.decoders = app.state.server.workers = Detecting(path)  # type: ignore[assignment]
    found = ask(app, "/segment", b"wide").json()["predictions"][0]
    assert (found["width"], found["height"], found["batch_size"]) == (64, 32, 1) and "map_png" not in found
    assert [(area["label"], area["pixels"]) for area in found["areas"]] == [("background", 64 * 32)]
    png = ask(app, "/segment", b"wide", query="maps=true").json()["predictions"][0]["map_png"]
    with Image.open(io.BytesIO(base64.b64decode(png))) as picture:
        assert (picture.mode, picture.size, np.asarray(picture).max()) == ("P", (64, 32), 0)
    assert ask(app, "/segment", b"bad").status == 422
    monkeypatch.setattr(routes, "MAX_MAP_PIXELS", 64 * 32 - 1)
    assert ask(app, "/segment", b"wide", query="maps=true").status == 413
    assert ask(app, "/segment", b"wide").status == 200
    assert ask(app, "/about").json()["pictures"] == "/segment"
    refused = ask(app, "/classify", b"wide")
    assert refused.status == 400 and b"/segment" in refused.body


@pytest.mark.parametrize("path", ["/detect", "/segment"])
def test_boxes_and_maps_are_not_asked_of_others(rows: FastAPI, path: str) -> None:
    refused = ask(rows, path, b"good")
    assert refused.status == 400 and b"/classify" in refused.body

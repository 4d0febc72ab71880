"""Worker processes of a server that decode pictures, forms and tensors."""

from __future__ import annotations

import io
import json
import os

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("fastapi")
from trninfer.inference.serving.decoding import Decoder, FormTask, PictureTask, TensorTask
from trninfer.inference.serving.signature import Signature
from trninfer.inference.serving.tensors import ProtocolError, TooManyExamples
from trninfer.models import Dense, Flatten, ImageInput, Network
from trninfer.models.errors import InputError
from trninfer.runtime.workers.worker import WorkerFault

GREY = ImageInput(1, 2, 2, "photo", (0.0,), (1.0,), 2)
SIGNATURE = Signature(Network("grey", GREY, (Flatten("flatten"), Dense("head", 4, 2)), ("a", "b")))


def grey(value: int) -> PictureTask:
    file = io.BytesIO()
    Image.new("L", (2, 2), value).save(file, "PNG")
    return PictureTask(file.getvalue())


@pytest.fixture
def decoder(recwarn: pytest.WarningsRecorder) -> Decoder:
    found = Decoder()
    assert found.begin(SIGNATURE).value == os.getpid()
    return found


def test_decoded_pictures_and_errors_in_the_order_of_the_files(decoder: Decoder) -> None:
    reply = decoder.answer([PictureTask(b"junk"), grey(51), PictureTask(grey(0).content[:20]), grey(255)])
    first, second, third, fourth = reply.value
    assert reply.error is None and isinstance(first, InputError) and isinstance(third, InputError)
    assert second.dtype == np.float32 and second.shape == (1, 2, 2) and np.allclose(second, 0.2, atol=1e-6)
    assert np.allclose(fourth, 1.0) and "not a picture in a known format" in str(first)
    assert decoder.answer([]).value == []


def test_a_fault_comes_with_its_traceback_and_no_memory_with_the_size(decoder: Decoder, monkeypatch) -> None:
    def fail(error: type[BaseException]):
        def call(*arguments: object) -> None:
            raise error("so")

        return call

    monkeypatch.setattr("trninfer.inference.serving.decoding.decode_sources", fail(ZeroDivisionError))
    error = decoder.answer([PictureTask(b"x")]).error
    assert isinstance(error, WorkerFault) and "ZeroDivisionError: so" in str(error)
    monkeypatch.setattr("trninfer.inference.serving.decoding.decode_sources", fail(MemoryError))
    (refused,) = decoder.answer([PictureTask(b"x")]).value
    assert isinstance(refused, InputError) and str(refused) == "1 bytes, which require more memory than is available"


def test_forms_and_tensors(decoder: Decoder) -> None:
    tensor = {"name": "input", "shape": [2, 1, 2, 2], "datatype": "UINT8", "data": list(range(8))}
    body = json.dumps({"id": "7", "inputs": [tensor]}).encode()
    whole, many, junk, files = decoder.answer(
        [TensorTask(body, None, 2), TensorTask(body, None, 1), TensorTask(b"{", None, 2), FormTask(b"raw", "", 1)]
    ).value
    request, sources = whole
    assert request.id == "7" and np.array_equal(np.stack(sources).ravel(), np.arange(8))
    assert isinstance(many, TooManyExamples) and isinstance(junk, ProtocolError) and files == [("picture", b"raw")]

"""The worker processes of a server, which decode inputs or run the network."""

from __future__ import annotations

import functools
import io
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("fastapi")
from trninfer.inference.serving.decoding import DecodingWorker, PictureTask
from trninfer.inference.serving.signature import Signature
from trninfer.inference.serving.workers import NetworkWorker
from trninfer.models import Dense, Flatten, ImageInput, Network, load_model, run_network
from trninfer.models.errors import InputError
from trninfer.runtime.session import OverflowedError
from trninfer.runtime.simulated import open_for_worker
from trninfer.runtime.workers.worker import Hello, Setup

GREY = ImageInput(1, 2, 2, "photo", (0.0,), (1.0,), 2)
SIGNATURE = Signature(Network("grey", GREY, (Flatten("flatten"), Dense("head", 4, 2)), ("a", "b")))


def grey(value: int) -> bytes:
    file = io.BytesIO()
    Image.new("L", (2, 2), value).save(file, "PNG")
    return file.getvalue()


def test_both_in_processes_of_their_own(feature_model: Path) -> None:
    model = load_model(feature_model)
    greeted: list[Hello] = []
    timed: list[float] = []
    setup = Setup(model, functools.partial(open_for_worker, "trn2", 1), "float16")
    worker, decoding = NetworkWorker(setup, {}, greeted.append, timed.append), DecodingWorker(SIGNATURE)
    try:
        assert worker.begin() == f"{greeted[0].process}, sim trn2"
        assert len({greeted[0].process, int(decoding.begin()), os.getpid()}) == 3
        good, bad = decoding.answer([PictureTask(grey(102)), PictureTask(b"junk")])
        assert np.allclose(good, 0.4, atol=1e-6) and isinstance(bad, InputError)
        rows = np.random.default_rng(0).standard_normal((3, 6)).astype(np.float32)
        answers = worker.answer(list(rows))
        golden = run_network(model.network, model.tensors, rows).probabilities
        assert np.allclose([answer.scores for answer in answers], golden, atol=0.01)
        assert [answer.class_index for answer in answers] == golden.argmax(axis=1).tolist()
        assert {(answer.batch_size, answer.batch_us) for answer in answers} == {(3, timed[0])} and timed[0] > 1
        with pytest.raises(OverflowedError):
            worker.answer([np.full(6, 1e30, np.float32)])
        assert len(worker.answer([rows[0]])) == 1  # the worker continues
    finally:
        worker.close()
        decoding.close()

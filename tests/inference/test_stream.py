"""Answers to batches, in the order in which they arrive."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest
from trninfer.inference.predictions import Prediction, make_predictions
from trninfer.inference.stream import answer_batches
from trninfer.models import Dense, FeatureInput, Model, Network, Softmax, load_model, save_model
from trninfer.runtime.backend import BackendInfo, LaunchTime
from trninfer.runtime.choose import choose_backend
from trninfer.runtime.session import BatchAnswer, Session, split_batches
from trninfer.runtime.timing import BATCH, Row


def labels(top_k: int):
    return partial(make_predictions, top_k=top_k)


class Taker:
    """Accepts answers, and stops after `limit` of them."""

    def __init__(self, limit: int = 1000) -> None:
        self.taken: list[Prediction] = []
        self.limit = limit

    def add(self, predictions) -> bool:
        self.taken += predictions
        return len(self.taken) < self.limit


@pytest.mark.parametrize(("features", "batch"), [(6, 6), (6, 4), (8, 8), (6, 1)])
def test_batches_one_by_one_add_up_as_all_together(tmp_path, features, batch) -> None:
    layers = (Dense("hidden", features, 8, "relu"), Dense("output", 8, 3), Softmax("softmax"))
    network = Network("n", FeatureInput(features), layers, ("a", "b", "c"))
    random = np.random.default_rng(1)
    shapes = network.tensor_shapes()
    save_model(tmp_path / "m.safetensors", network, {n: random.standard_normal(s) for n, s in shapes.items()})
    model = load_model(tmp_path / "m.safetensors")
    rows = random.standard_normal((17, features)).astype(np.float32)
    session = Session(model, choose_backend("sim"), "float32", batch)
    together = session.run(rows)
    for _ in range(2):  # a session can run again
        batches = [(range(len(part)), part) for part in split_batches(rows, batch)]
        seen: list[float] = []
        taker = Taker()
        result = answer_batches(session, batches, taker, labels(2), seen.append, "float32")
        assert result.count == 17 and seen == sorted(seen) and seen[-1] == 17
        assert [p.class_index for p in taker.taken] == together.classes.tolist()
        assert result.verification is not None and result.verification.passed
        for row, expected in zip(result.layers, together.layers, strict=True):
            assert row.input_shape == expected.input_shape and row.output_shape == expected.output_shape
            assert (row.flops, row.hbm_bytes, row.bound_by) == (expected.flops, expected.hbm_bytes, expected.bound_by)
            assert row.latency_us == pytest.approx(expected.latency_us) and row.mfu == pytest.approx(expected.mfu)
            assert row.share == pytest.approx(expected.share)


def test_stream_stops_when_the_consumer_stops(feature_model) -> None:
    session = Session(load_model(feature_model), choose_backend("sim"), "float32", 2)
    taker = Taker(limit=3)
    rows = np.zeros((20, 6), np.float32)
    batches = ((range(2), part) for part in split_batches(rows, 2))
    assert answer_batches(session, batches, taker, labels(1), lambda done: None).count == len(taker.taken) == 4


SIM = BackendInfo("sim", "trn2", "predicted", "predicted")


@dataclass(frozen=True)
class Answered:
    """A session with prepared answers, including failures, each batch with its worker."""

    answers: tuple[BatchAnswer, ...]
    model: Model
    info: BackendInfo = SIM
    rows: tuple[Row, ...] = (Row("fc", "dense", (BATCH, 2), (BATCH, 2)),)

    def stream(self, batches, progress=None):
        """Yield results like `Session.stream`, after taking a given number of batches in advance."""
        assert len(list(batches)) == len(self.answers)
        yield from self.answers


MODEL = Model(Network("m", FeatureInput(2), (Dense("d", 2, 2), Softmax("s")), ("a", "b")), {}, {})


def answer(classes: list[int], worker: int = 0, timeline: object = None, **failures: str) -> BatchAnswer:
    probabilities = np.array([[0.75, 0.25] if index == 0 else [0.25, 0.75] for index in classes], np.float32)
    failed = {int(name[1:]): reason for name, reason in failures.items()}
    time = LaunchTime(10.0 * len(classes))
    return BatchAnswer(
        len(classes), np.array(classes, np.int32), probabilities.reshape(-1, 2), (time,), (timeline,), failed, worker
    )


def test_inputs_without_an_answer_are_refused_and_the_others_keep_their_names() -> None:
    answers = (
        answer([1, 0], 1, "first", _1="overflows", _0="too large"),
        answer([], _0="gone"),
        answer([0], 2, "second"),
    )
    batches = [((name + "0", name + "1", name + "2", name + "3")[:count], np.zeros((count, 2))) for name, count in
               (("a", 4), ("b", 1), ("c", 1))]  # fmt: skip
    taker, refused = Taker(), []
    session = Answered(answers, MODEL)
    result = answer_batches(
        session,
        batches,
        taker,
        labels(1),
        lambda done: None,
        refuse=lambda name, reason: refused.append((name, reason)),
    )
    assert refused == [("a0", "too large"), ("a1", "overflows"), ("b0", "gone")]
    assert [(each.input, each.label, len(each.top)) for each in taker.taken] == [
        ("a2", "b", 1), ("a3", "a", 1), ("c0", "a", 1),
    ]  # fmt: skip
    assert result.count == 3 and result.worker_us == {1: 20.0, 2: 10.0} and result.verification is None
    assert result.timelines == (("fc", "first"),) and result.layers[0].latency_us == 30.0
    assert result.layers[0].input_shape == (3, 2)


def test_only_what_was_answered_is_verified(feature_model) -> None:
    model = load_model(feature_model)
    rows = np.random.default_rng(0).standard_normal((3, 6)).astype(np.float32)
    (good,) = Session(model, choose_backend("sim"), "float32", 2).stream([rows[[0, 2]]])
    session = Answered(
        (replace(good, failures={1: "overflows"}),), model, rows=Session(model, choose_backend("sim")).rows
    )
    result = answer_batches(session, [((0, 1, 2), rows)], Taker(), labels(3), lambda done: None, "float32")
    assert result.verification is not None and result.verification.passed and result.verification.max_abs_error < 1e-4
    swapped = replace(good, probabilities=good.probabilities[::-1], classes=good.classes[::-1], failures={1: "x"})
    wrong = answer_batches(
        replace(session, answers=(swapped,)), [((0, 1, 2), rows)], Taker(), labels(3), print, "float32"
    )
    assert wrong.verification is not None and not wrong.verification.passed


def test_no_batch_no_answer() -> None:
    result = answer_batches(Answered((), MODEL), [], Taker(), labels(1), lambda done: None)
    assert (result.count, result.worker_us, result.timelines) == (0, {}, ())

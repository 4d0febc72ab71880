"""Running batches: an input that overflows does not affect the others."""

import threading
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from small_inputs import write_model
from trninfer.inference.predictions import make_predictions
from trninfer.inference.running import PatientSession, run_batches
from trninfer.models import Dense, FeatureInput, Network, Output, load_model
from trninfer.runtime.session import OverflowedError, Session
from trninfer.runtime.simulated import SimulatedBackend

FINE = np.array([[1, 2], [-3, 4], [0, 0], [5, -6]], np.float32)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """In float16, numbers above 65504 overflow."""
    network = Network("values", FeatureInput(2), (Dense("d", 2, 2),), (), Output("values"))
    path = write_model(tmp_path_factory.mktemp("models") / "values.safetensors", network)
    return Session(load_model(path), SimulatedBackend("trn2"), "float16", 4)


def spoiled(*positions: int) -> np.ndarray:
    rows = FINE.copy()
    rows[list(positions)] = 1e30
    return rows


@pytest.mark.parametrize("bad", [(), (0,), (1, 3), (0, 1, 2, 3)])
def test_other_inputs_are_answered_as_in_a_batch_of_one(session: Session, bad: tuple[int, ...]) -> None:
    good = [position for position in range(4) if position not in bad]
    (answer,) = PatientSession(session).stream([spoiled(*bad)])
    assert answer.size == len(good) and sorted(answer.failures) == list(bad)
    assert all("not finite in float16" in reason for reason in answer.failures.values())
    expected = FINE[good] @ session.model.tensors["d.weight"] + session.model.tensors["d.bias"]
    assert answer.probabilities.shape == (len(good), 2)
    assert np.allclose(answer.probabilities, expected, atol=0.01, rtol=0.005)
    if bad and good:  # one launch each
        (alone,) = session.stream([FINE[:1]])
        assert sum(time.latency_us for time in answer.times) == pytest.approx(
            len(good) * sum(time.latency_us for time in alone.times)
        )


def test_a_plain_session_raises_the_overflow(session: Session) -> None:
    with pytest.raises(OverflowedError):
        list(session.stream([spoiled(1)]))
    (nothing,) = PatientSession(session).stream([FINE[:0]])
    assert nothing.size == 0 and nothing.probabilities.shape == (0, 2) and nothing.failures == {}


def test_answers_are_kept_and_failures_named(session: Session) -> None:
    refused: list[tuple] = []
    batches = [(["a", "b", "c", "d"], spoiled(2)), (["e"], FINE[:1])]
    result = run_batches(
        PatientSession(session),
        batches,
        partial(make_predictions, top_k=3),
        lambda name, reason: refused.append((name, reason)),
    )
    assert [answer.input for answer in result.predictions] == ["a", "b", "d", "e"]
    assert result.predictions[0].values == result.predictions[3].values and result.info.name == "sim"
    assert [name for name, _ in refused] == ["c"] and result.layers[0].input_shape[0] == 4


def test_as_many_labels_as_there_are(feature_model: Path) -> None:
    session = Session(load_model(feature_model), SimulatedBackend("trn2"), "float32", 2)
    for top_k, shown in ((1, 1), (3, 3)):
        result = run_batches(
            session, [([0], np.zeros((1, 6), np.float32))], partial(make_predictions, top_k=top_k), print
        )
        assert len(result.predictions[0].top) == shown


def test_no_batches_are_read_after_a_stop(session: Session) -> None:
    stopped, taken = threading.Event(), []

    def batches():
        for number in range(5):
            taken.append(number)
            if number == 1:
                stopped.set()
            yield [number], FINE[:1]

    result = run_batches(session, batches(), partial(make_predictions, top_k=1), print, stopped)
    assert [answer.input for answer in result.predictions] == [0, 1] and taken == [0, 1]

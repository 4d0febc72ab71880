"""Training digits-ffnn on a small scale: its batches, and the file that it writes."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from trninfer.models import load_model, run_network  # noqa: E402
from trninfer.tools.digits import train_digits_ffnn as script  # noqa: E402
from trninfer.tools.digits.training import seed_everything  # noqa: E402
from trninfer.tools.digits.uci import FORM_STARTS, Digits  # noqa: E402


def bars(count: int) -> Digits:
    """Return digits of one column each, which a network distinguishes at once."""
    labels = np.arange(count, dtype=np.int32) % 8
    features = np.zeros((count, 8, 8), np.float32)
    features[np.arange(count), :, labels] = 16
    return Digits(features.reshape(count, 64), labels)


def test_a_batch_is_of_distorted_digits_as_they_are_scaled() -> None:
    seed_everything(0)
    given = bars(80)
    given.features[:] /= 2  # of 16
    x, y = next(script.batches(*given))
    assert x.shape == (script.BATCH, 64) and y.shape == (script.BATCH,) and y.dtype == torch.long
    assert float(x.min()) >= 0 and 0.5 < float(x.max()) < 0.9  # some are brighter by a third
    columns = x.reshape(-1, 8, 8).mean(dim=1)
    middle = (columns * torch.arange(8.0)).sum(dim=1) / columns.sum(dim=1)
    assert torch.corrcoef(torch.stack([middle, y.float()]))[0, 1] > 0.9  # pictures and labels match
    more, _ = next(script.batches(*given))
    assert not torch.equal(x, more)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Digits]:
    """Run a few steps on bars, and return the sets that answers were scored on."""
    scored: list[Digits] = []
    answer = script.answer

    def noting(network, tensors, features, labels):
        scored.append(Digits(features, labels))
        return answer(network, tensors, features, labels)

    monkeypatch.setattr(script, "STEPS", 40)
    monkeypatch.setattr(script, "BATCH", 64)
    monkeypatch.setattr(script, "answer", noting)
    monkeypatch.setattr(script, "load_split", lambda: (bars(FORM_STARTS[8] + 24), bars(40)))
    monkeypatch.setattr(script, "WEIGHTS_DIRECTORY", tmp_path)
    return scored


def test_the_file_takes_features_as_they_are(small: list[Digits], tmp_path: Path, monkeypatch) -> None:
    trained: dict[str, np.ndarray] = {}
    tensors_of = script.tensors_of
    monkeypatch.setattr(script, "tensors_of", lambda *given: trained.update(tensors_of(*given)) or dict(trained))
    monkeypatch.setattr(sys, "argv", ["train"])
    script.main()
    model = load_model(tmp_path / "digits-ffnn.safetensors")
    held_out = bars(40)
    found = run_network(model.network, model.tensors, held_out.features).probabilities.argmax(axis=1)
    assert (found == held_out.labels).mean() > 0.8
    assert len(small) == 1 and len(small[0].labels) == 40
    np.testing.assert_array_equal(model.tensors["hidden.weight"] * 16, trained["hidden.weight"])
    np.testing.assert_array_equal(model.tensors["output.weight"], trained["output.weight"])
    assert script.SCORED_ON in model.metadata["accuracy"] and model.metadata["feature_range"] == "[0, 16]"


def test_validation_holds_out_forms_of_the_training_half_and_writes_nothing(
    small: list[Digits], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["train", "--validate"])
    monkeypatch.setattr(script, "STEPS", 1)
    script.main()
    assert list(tmp_path.iterdir()) == [] and [len(each.labels) for each in small] == [24]


def test_the_bundled_weights_are_of_this_network() -> None:
    assert load_model("digits-ffnn").network == script.NETWORK

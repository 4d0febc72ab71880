"""Training digits-cnn on a small scale: shares of a batch, a teacher's answers, and consecutive rounds."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("sklearn")

from trninfer.tools.digits import train_digits_cnn as script  # noqa: E402
from trninfer.tools.digits.card import Round  # noqa: E402
from trninfer.tools.digits.render_digits import Rendering  # noqa: E402
from trninfer.tools.digits.render_nondigits import NONE  # noqa: E402
from trninfer.tools.digits.training import module_for, tensors_of  # noqa: E402


def rendering(count: int, seed: int) -> Rendering:
    """Render bars, whose position determines the class."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, NONE + 1, count).astype(np.int32)
    images = np.zeros((count, 1, 32, 32), np.float32)
    for image, label in zip(images, labels):
        image[0, 4:28, 2 + 2 * label : 6 + 2 * label] = 1
    return Rendering(images, labels, np.arange(count, dtype=np.int32), 0)


@pytest.fixture
def sources() -> dict[str, Rendering]:
    return {name: rendering(30, number) for number, name in enumerate(script.WRITTEN_SHARES)}


def test_a_batch_has_every_share_in_order(sources: dict[str, Rendering]) -> None:
    for number, source in enumerate(sources.values()):
        source.labels[:] = number % (NONE + 1)
    x, y = next(script.batches(sources, script.MORE))
    expected = [number % (NONE + 1) for number, share in enumerate(script.PLAIN_SHARES.values()) for _ in range(share)]
    assert y.tolist() == expected and x.shape == (len(expected), 1, 32, 32)
    assert x.min() >= 0 and 0.5 < x.max() <= 1


@pytest.mark.slow
def test_a_teacher_gives_the_targets(sources: dict[str, Rendering]) -> None:
    teacher = module_for(script.NETWORK, dropout=0.0, normalize=True).eval()
    x, y = next(script.batches(sources, script.MORE, teachers=[teacher], sure=["plain handwriting"]))
    with torch.no_grad():
        expected = torch.softmax(teacher(x) / script.SOFTENED, dim=1)
    labels, count = y.argmax(dim=1), script.PLAIN_SHARES["plain handwriting"]
    torch.testing.assert_close(y[:count], torch.nn.functional.one_hot(labels[:count], NONE + 1).float())
    torch.testing.assert_close(y[count:], expected[count:], atol=2e-2, rtol=0)  # of bfloat16
    assert y.sum(dim=1).allclose(torch.ones(len(x)))


@pytest.mark.slow
def test_rounds_go_on_from_those_that_they_name(
    sources: dict[str, Rendering], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small = script._network("small", 4, 4, 4, 4, 4)
    rounds = (
        Round(small, 3, 1e-3, 0.2),
        Round(small, 2, 1e-3, 0.2, shares=1),
        Round(small, 1, 1e-9, 0.2, after=1, taught_by=(0, 1), validation_fonts=True),
    )
    monkeypatch.setattr(script, "ROUNDS", rounds)
    judged = {"fonts": rendering(40, 100), "letters": rendering(40, 101)}
    first, second, last = (tensors_of(small, module) for module in script.train_rounds(sources, judged, tmp_path))
    assert any((first[name] != second[name]).any() for name in first)
    # weights without normalization converge to zero, since the final rate is zero
    for name in ("conv1.weight", "output.weight"):
        np.testing.assert_allclose(last[name], second[name], atol=1e-6)
    assert {path.name for path in tmp_path.iterdir()} == {"round-1.pt", "round-2.pt", "round-3.pt"}
    again = [tensors_of(small, module) for module in islice(script.train_rounds(sources, judged, tmp_path), 2)]
    for name in second:
        np.testing.assert_array_equal(again[1][name], second[name])
    assert "calibration error" in capsys.readouterr().out


def test_an_offset_and_a_temperature_are_folded_into_the_last_layer() -> None:
    tensors = {"output.weight": np.ones((4, NONE + 1), np.float32), "output.bias": np.full(NONE + 1, 3, np.float32)}
    script.apply(tensors, 1.0, 2.0)
    assert (tensors["output.weight"] == 0.5).all()
    assert tensors["output.bias"].tolist() == [1.5] * NONE + [1.0]


def test_no_more_digits_are_refused_than_allowed(capsys: pytest.CaptureFixture[str]) -> None:
    module = module_for(script.NETWORK, dropout=0.0, normalize=True).eval()
    judged = {"fonts": rendering(400, 1), "letters": rendering(40, 2)}
    judged["fonts"].labels[:] %= NONE
    offset, temperature = script.calibrate(script.NETWORK, tensors_of(script.NETWORK, module), judged)
    assert offset >= 0 and temperature > 0
    told = capsys.readouterr().out.splitlines()[0]
    refused = int(told.split(" right, ")[1].split()[0])
    assert told.startswith("validation, fonts: ") and refused <= script.MAX_REFUSED * 400

"""Training: normalization is folded away, and an interrupted run gives the same result as an uninterrupted one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from trninfer.models.golden import run_network
from trninfer.models.inputs import ImageInput
from trninfer.models.layers import Conv2d, Dense, Flatten, Softmax
from trninfer.models.network import Network

torch = pytest.importorskip("torch")

from trninfer.tools.digits.training import (  # noqa: E402
    Batch,
    Checkpoint,
    Distortion,
    distort,
    module_for,
    seed_everything,
    tensors_of,
    train,
)

NETWORK = Network(
    "small",
    ImageInput(1, 8, 8, "digit", (0.0,), (1.0,)),
    (
        Conv2d("conv1", 1, 3, kernel_size=(3, 3), padding=(1, 1, 1, 1), pool_size=2, activation="relu"),
        Conv2d("conv2", 3, 4, kernel_size=(3, 3), padding=(1, 1, 1, 1), activation="relu"),
        Flatten("flatten"),
        Dense("output", 4 * 4 * 4, 2),
        Softmax("softmax"),
    ),
    ("dark", "light"),
)


def batches() -> Iterator[Batch]:
    """Return darker or lighter noise."""
    while True:
        labels = torch.randint(0, 2, (16,))
        yield torch.rand(16, 1, 8, 8) * 0.5 + 0.5 * labels.reshape(-1, 1, 1, 1), labels


def trained(steps: int, checkpoint: Checkpoint | None = None, seed: int = 0) -> dict[str, np.ndarray]:
    seed_everything(seed)
    module = module_for(NETWORK, dropout=0.1, normalize=True)
    average = train(module, batches, steps, 1e-2, 1e-2, smoothing=0.0, average_decay=0.9, checkpoint=checkpoint)
    return tensors_of(NETWORK, average)


@pytest.mark.parametrize("normalize", [False, True])
def test_the_golden_model_gives_what_the_module_gives(normalize: bool) -> None:
    seed_everything(1)
    module = module_for(NETWORK, dropout=0.5, normalize=normalize)
    x, y = next(batches())
    for _ in range(3):  # statistics that differ from the initial ones
        torch.nn.functional.cross_entropy(module(3 * x - 1), y).backward()
        with torch.no_grad():
            for parameter in module.parameters():
                parameter -= 0.1 * parameter.grad
    module.eval()
    expected = module(x).detach().numpy()
    given = run_network(NETWORK, tensors_of(NETWORK, module), x.numpy()).logits
    np.testing.assert_allclose(given, expected, rtol=1e-4, atol=1e-5)


def test_training_learns() -> None:
    tensors = trained(60)
    x, y = next(batches())
    assert (run_network(NETWORK, tensors, x.numpy()).logits.argmax(axis=1) == y.numpy()).mean() > 0.9


class StoppedError(Exception):
    """Interrupts a run."""


def test_a_run_that_was_stopped_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    seen = []

    def stop(average: torch.nn.Module) -> None:
        seen.append(average)
        if len(seen) == 2:
            raise StoppedError

    kept = Checkpoint(tmp_path / "checkpoint.pt", 10, stop)
    with pytest.raises(StoppedError):
        trained(30, kept)
    resumed = trained(30, kept, seed=5)  # the random state is restored from the checkpoint
    whole = trained(30)
    assert len(seen) == 3
    for name, tensor in whole.items():
        np.testing.assert_array_equal(resumed[name], tensor, err_msg=name)


def test_a_finished_run_is_not_trained_again(tmp_path: Path) -> None:
    kept = Checkpoint(tmp_path / "checkpoint.pt", 10, lambda average: None)
    first, again = trained(20, kept), trained(20, kept, seed=9)
    for name, tensor in first.items():
        np.testing.assert_array_equal(again[name], tensor)


def test_the_learning_rate_rises_for_its_share_and_ends_low(tmp_path: Path) -> None:
    rates: dict[int, float] = {}
    kept = Checkpoint(tmp_path / "checkpoint.pt", 2, lambda average: None)

    def watched() -> Iterator[Batch]:
        for step, batch in enumerate(batches()):
            if kept.path.is_file():
                rates[step] = torch.load(kept.path, weights_only=True)[4]["param_groups"][0]["lr"]
            yield batch

    seed_everything(0)
    train(module_for(NETWORK, dropout=0.1), watched, 20, 1e-2, 1e-2, checkpoint=kept, rising=0.5)
    assert rates[2] < rates[6] < rates[10] > rates[14] > rates[18]
    assert rates[10] == pytest.approx(1e-2, rel=0.1)
    assert torch.load(kept.path, weights_only=True)[4]["param_groups"][0]["lr"] < 5e-4


def test_no_distortion_changes_nothing() -> None:
    images = torch.rand(3, 1, 9, 9)
    moved = distort(images, Distortion(0, 0, 0, 0, 0, 0))
    np.testing.assert_allclose(moved.numpy(), images.numpy(), atol=1e-5)

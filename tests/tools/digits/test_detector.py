"""The detector: its training targets, and the exported network."""

import numpy as np
import pytest
from trninfer.models.golden import run_network

torch = pytest.importorskip("torch")

from trninfer.tools.digits.compositions import PADDING, SIDE, Composition  # noqa: E402
from trninfer.tools.digits.detector import CLASSES, Batch, Detector, augment, loss_of, train  # noqa: E402
from trninfer.tools.digits.train_digits_detect import answer, fit_offset, to_network  # noqa: E402


def example() -> Composition:
    image = np.full((SIDE, SIDE), 200, np.uint8)
    image[40:60, 30:42] = 20
    return Composition(image, np.array([[4, 30, 40, 42, 60]], np.float32))


def test_the_network_answers_as_the_module() -> None:
    torch.manual_seed(0)
    model = Detector().eval()
    for part in model.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            part.running_mean.normal_(0, 0.1)
            part.running_var.uniform_(0.5, 2)
    x = np.random.default_rng(0).random((2, 1, SIDE, SIDE), np.float32)
    with torch.no_grad():
        expected = model(torch.from_numpy(x)).numpy()
    expected[:, 4:] += 0.5
    network, tensors = to_network(model, 0.5)
    found = run_network(network, tensors, x - np.float32(PADDING)).scores.reshape(2, *network.output_shape)
    np.testing.assert_allclose(found.transpose(0, 2, 1), expected, rtol=1e-3, atol=1e-4)


def test_the_loss_falls_with_better_boxes() -> None:
    model = Detector()
    batch = Batch(torch.zeros(1, 1, SIDE, SIDE), *map(torch.tensor, ([0], [4], [[30.0, 40.0, 42.0, 60.0]])))
    answers = torch.zeros(1, 4 + CLASSES, 320)
    answers[:, 4:] = -6
    better = answers.clone()
    cell = 50 // 8 * 16 + 36 // 8
    better[0, :4, cell] = torch.tensor([36 / 8 - 4, 50 / 8 - 6, np.log(12 / 8), np.log(20 / 8)])
    better[0, 4 + 4, cell] = 4
    assert loss_of(better, batch, model) < loss_of(answers, batch, model)
    empty = Batch(batch.images, *(part[:0] for part in batch[1:]))
    assert torch.isfinite(loss_of(answers, empty, model))


def test_augmenting_keeps_boxes_on_their_digits() -> None:
    torch.manual_seed(1)
    one = example()
    batch = augment(
        torch.from_numpy(one.image)[None, None].float().repeat(8, 1, 1, 1) / 255, [torch.from_numpy(one.boxes)] * 8
    )
    for owner, (x1, y1, x2, y2) in zip(batch.owners.tolist(), batch.boxes.round().int().tolist()):
        image = batch.images[owner, 0]
        inside = image[y1 + 2 : y2 - 2, x1 + 2 : x2 - 2].mean()
        assert abs(inside - image[y1:y2, max(0, x1 - 5) : x1 - 1].mean()) > 0.1


@pytest.mark.slow
@pytest.mark.slow
def test_a_short_training_and_its_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    model = train([example()] * 32, 2, seed=0)
    assert np.isfinite(fit_offset(model, [example()]))
    assert answer(*to_network(model, 0.0), [example()])[0].shape[1] == 6

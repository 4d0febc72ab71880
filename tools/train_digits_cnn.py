"""Train `digits-cnn`: a picture of a digit, preprocessed to 1x32x32, to ten classes.

`python -m trninfer.tools.train_digits_cnn` writes weights/digits-cnn.safetensors. Seed 0. Trained on
- the first eleven forms of the UCI digits that scikit-learn ships (1,415 digits), as plain pictures and as 8,000
  distorted and badly lit ones, and
- 12,000 distorted and badly lit pictures of digits in the fonts of TRAINING_FAMILIES (`fonts.py`),
each put through the preprocessing that a user's picture goes through, and distorted a little more in every batch.
Scored on the last three forms (382 digits), as plain pictures, and on 2,000 pictures of digits in the fonts of
HELD_OUT_FAMILIES; a picture in which no ink is found counts as wrong.

`--cache FILE.npz` keeps the rendered pictures, which take most of the time. `--validate` trains without forms 9 to 11
and scores on those and on no fonts, and writes nothing: for choosing settings.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from ..models.files import WEIGHTS_DIRECTORY, save_model
from ..models.network import Conv2d, Dense, Flatten, Network, Softmax
from .digits import FORM_STARTS, Digits, load_split
from .render_digits import HELD_OUT_PICTURES, INPUT, plain_handwriting, render_fonts, render_handwriting
from .scoring import accuracy_metadata, count_correct
from .training import Batch, Distortion, distort, module_for, seed_everything, tensors_of, train

HANDWRITING_PICTURES = 8000
FONT_PICTURES = 12000
STEPS = 5000
# Of each batch: plain handwriting, distorted handwriting, fonts.
SHARES = (64, 32, 48)
SCORED_ON_DIGITS = "UCI digits enlarged, held-out forms"
SCORED_ON_FONTS = "distorted renderings, held-out fonts"

NETWORK = Network(
    "digits-cnn",
    INPUT,
    (
        Conv2d("conv1", 1, 16, kernel_size=(3, 3), padding=(1, 1, 1, 1), pool_size=2, activation="relu"),
        Conv2d("conv2", 16, 32, kernel_size=(3, 3), padding=(1, 1, 1, 1), pool_size=2, activation="relu"),
        Conv2d("conv3", 32, 64, kernel_size=(3, 3), padding=(1, 1, 1, 1), pool_size=2, activation="relu"),
        Flatten("flatten"),
        Dense("hidden", 64 * 4 * 4, 64, "relu"),
        Dense("output", 64, 10),
        Softmax("softmax"),
    ),
    tuple("0123456789"),
)

Source = tuple[np.ndarray, np.ndarray]


def batches(sources: list[Source]) -> Iterator[Batch]:
    """Endless batches with SHARES of each source, distorted, in stroke and in tone as well."""
    tensors = [(torch.from_numpy(images), torch.from_numpy(labels).long()) for images, labels in sources]
    while True:
        images, targets = [], []
        for (source, labels), share in zip(tensors, SHARES, strict=True):
            chosen = torch.randint(0, len(source), (share,))
            images.append(source[chosen])
            targets.append(labels[chosen])
        x = distort(torch.cat(images), Distortion(shift_x=0.1, shift_y=0.1))
        stroke = torch.rand(len(x), 1, 1, 1)
        thicker = F.max_pool2d(x, 3, 1, 1)
        thinner = -F.max_pool2d(-x, 3, 1, 1)
        change = 0.6 * torch.rand(len(x), 1, 1, 1)
        x = torch.where(stroke < 0.25, x.lerp(thicker, change), torch.where(stroke > 0.8, x.lerp(thinner, change), x))
        x = x ** torch.exp(0.3 * torch.randn(len(x), 1, 1, 1)) + 0.03 * torch.randn_like(x)
        yield x.clamp(0, 1), torch.cat(targets)


def training_pictures(cache: Path | None) -> list[Source]:
    """(images, labels) of the rendered training pictures, handwriting and fonts; from the cache where it is there."""
    if cache is not None and cache.is_file():
        with np.load(cache) as kept:
            return [(kept["h"], kept["hl"]), (kept["f"], kept["fl"])]
    rendered = [render_handwriting(HANDWRITING_PICTURES), render_fonts("training fonts", FONT_PICTURES)]
    if any(each.unreadable for each in rendered):
        raise RuntimeError("no ink is found in some training pictures, so their numbers no longer tell their digits")
    sources = [(each.images, each.labels) for each in rendered]
    if cache is not None:
        np.savez(cache, h=sources[0][0], hl=sources[0][1], f=sources[1][0], fl=sources[1][1])
    return sources


def main() -> None:
    """Render, train, score with the golden model, and write the file."""
    parser = argparse.ArgumentParser(description="Train digits-cnn.")
    parser.add_argument("--cache", type=Path, help="an .npz file that keeps the rendered training pictures")
    parser.add_argument("--validate", action="store_true", help="hold out training forms instead, and write nothing")
    options = parser.parse_args()
    digits, held_out = load_split()
    handwriting, fonts = training_pictures(options.cache)
    if options.validate:
        cut = FORM_STARTS[8]
        # Distorted picture number i is of digit i modulo all training digits.
        early = np.arange(len(handwriting[0])) % len(digits.labels) < cut
        handwriting = (handwriting[0][early], handwriting[1][early])
        held_out = Digits(digits.features[cut:], digits.labels[cut:])
        digits = Digits(digits.features[:cut], digits.labels[:cut])
    seed_everything(0)
    module = module_for(NETWORK, dropout=0.3)
    sources = [(plain_handwriting(digits.features), digits.labels), handwriting, fonts]
    module = train(module, lambda: batches(sources), STEPS, learning_rate=4e-3, weight_decay=2e-2)
    tensors = tensors_of(NETWORK, module)
    correct = count_correct(NETWORK, tensors, plain_handwriting(held_out.features), held_out.labels)
    scores = [(SCORED_ON_DIGITS, correct, len(held_out.labels))]
    if options.validate:
        accuracy_metadata(scores)
        return
    rendered = render_fonts("held-out fonts", HELD_OUT_PICTURES)
    correct = count_correct(NETWORK, tensors, rendered.images, rendered.labels)
    scores.append((SCORED_ON_FONTS, correct, HELD_OUT_PICTURES))
    metadata = {
        "trained_on": "UCI handwritten digits (scikit-learn's copy), first 11 of 14 forms, and digits rendered in "
        "88 font families, distorted and badly lit; seed 0",
        "accuracy": accuracy_metadata(scores),
        "license": "Apache-2.0",
    }
    save_model(WEIGHTS_DIRECTORY / f"{NETWORK.name}.safetensors", NETWORK, tensors, metadata)


if __name__ == "__main__":
    main()

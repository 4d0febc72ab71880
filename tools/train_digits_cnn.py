"""Train `digits-cnn`: a picture of a digit, preprocessed to 1x32x32, to ten digits or none ("-").

`python -m trninfer.tools.train_digits_cnn` writes weights/digits-cnn.safetensors and docs/digits-cnn-reliability.svg.
Seed 0. Trained on
- the first eleven forms of the UCI digits that scikit-learn ships (1,415 digits), as plain pictures and as 8,000
  distorted and badly lit ones,
- 14,500 distorted and badly lit pictures of digits in the fonts of TRAINING_FAMILIES (`fonts.py`), 2,500 of them small,
- some 13,000 pictures of what is no digit (`render_nondigits.py`),
each put through the preprocessing that a user's picture goes through, and distorted a little more in every batch.
Scored on the last three forms (382 digits), as plain pictures, on 2,000 pictures of digits in the fonts of
HELD_OUT_FAMILIES, and on 2,800 pictures of what is no digit, of families that are never trained on; a digit that is
refused, or in which no ink is found, counts as wrong.

Settings are chosen, and the temperature is fitted, on the fonts of VALIDATION_FAMILIES and the validation side of what
is no digit, after two rounds of training without them; a short third one takes those fonts in as well. `--validate`
stops after the two and writes nothing. `--cache DIRECTORY` keeps the rendered pictures, which take most of the time.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from ..models.files import WEIGHTS_DIRECTORY, save_model
from ..models.network import Conv2d, Dense, Flatten, Network, Output, Softmax
from .calibration import calibration_error, draw_reliability, fit_temperature, reliability, softmax
from .digits import load_split
from .fonts import TRAINING_FAMILIES
from .render_digits import INPUT, Rendering, plain_handwriting
from .render_nondigits import NONE
from .scoring import Answers, accuracy_metadata, answer
from .sets import Sets, held_out_scores, held_out_sets, joined, print_parts, training_sets, validation_sets
from .training import SLIGHT, Batch, Distortion, distort, module_for, seed_everything, tensors_of, train

STEPS = 3000  # of each of two rounds
LAST_STEPS = 1200
MAX_REFUSED = 0.01  # of the validation fonts' digits
# Of each batch: plain handwriting, distorted handwriting, fonts, small pictures of fonts, no digits.
SHARES = (32, 16, 48, 12, 60)
LAST_SHARES = (32, 16, 72, 12, 60)
DIAGRAM = WEIGHTS_DIRECTORY.parent / "docs" / "digits-cnn-reliability.svg"

NETWORK = Network(
    "digits-cnn",
    INPUT,
    (
        Conv2d("conv1", 1, 24, kernel_size=(3, 3), padding=(1, 1, 1, 1), pool_size=2, activation="relu"),
        Conv2d("conv2", 24, 48, kernel_size=(3, 3), padding=(1, 1, 1, 1), pool_size=2, activation="relu"),
        Conv2d("conv3", 48, 96, kernel_size=(3, 3), padding=(1, 1, 1, 1), pool_size=2, activation="relu"),
        Flatten("flatten"),
        Dense("hidden", 96 * 4 * 4, 128, "relu"),
        Dense("output", 128, 11),
        Softmax("softmax"),
    ),
    (*"0123456789", "-"),
    Output("classes", "softmax", none="-"),
)


def batches(sources: list[Rendering], shares: Sequence[int]) -> Iterator[Batch]:
    """Endless batches with these shares of each source, distorted, the plain one the most, in stroke and tone too."""
    tensors = [(torch.from_numpy(source.images), torch.from_numpy(source.labels).long()) for source in sources]
    while True:
        images, targets = [], []
        for (source, labels), share in zip(tensors, shares, strict=True):
            chosen = torch.randint(0, len(source), (share,))
            images.append(source[chosen])
            targets.append(labels[chosen])
        plain = distort(images[0], Distortion(shift_x=0.1, shift_y=0.1))
        x = torch.cat([plain, distort(torch.cat(images[1:]), SLIGHT)])
        stroke = torch.rand(len(x), 1, 1, 1)
        thicker = F.max_pool2d(x, 3, 1, 1)
        thinner = -F.max_pool2d(-x, 3, 1, 1)
        change = 0.6 * torch.rand(len(x), 1, 1, 1)
        x = torch.where(stroke < 0.25, x.lerp(thicker, change), torch.where(stroke > 0.8, x.lerp(thinner, change), x))
        x = x ** torch.exp(0.3 * torch.randn(len(x), 1, 1, 1)) + 0.03 * torch.randn_like(x)
        yield x.clamp(0, 1), torch.cat(targets)


def train_on(plain: Rendering, sources: list[Rendering]) -> nn.Sequential:
    """The network trained on plain handwriting and the other sources, in the order of SHARES.

    In two rounds: the second begins with the average of the first, and hardly any dropout.
    """
    seed_everything(0)
    source = batches([plain, *sources], SHARES)
    module = module_for(NETWORK, dropout=0.3)
    average = train(module, lambda: source, STEPS, learning_rate=4e-3, weight_decay=2e-2, bfloat16=True)
    return go_on(average, source, STEPS, learning_rate=2e-3, seed=1)


def go_on(
    average: nn.Sequential, source: Iterator[Batch], steps: int, learning_rate: float, seed: int
) -> nn.Sequential:
    """Another round, from the average of the one before."""
    seed_everything(seed)
    module = module_for(NETWORK, dropout=0.1)
    module.load_state_dict(average.state_dict())
    return train(module, lambda: source, steps, learning_rate, weight_decay=2e-2, bfloat16=True)


def calibrate(tensors: dict[str, np.ndarray], judged: dict[str, Rendering]) -> tuple[float, float]:
    """(what is taken off the logit of none, temperature), by the validation split; prints its scores with them.

    The offset is the smallest with which at most MAX_REFUSED of the validation fonts' digits are refused.
    """
    results = {name: _answer(tensors, each) for name, each in judged.items()}
    digits = results["fonts"].logits
    lead = np.sort(digits[:, NONE] - digits[:, :NONE].max(axis=1))
    offset = max(0.0, math.ceil(100 * float(lead[-1 - int(MAX_REFUSED * len(lead))])) / 100)
    shifted = {name: _shift(result, offset) for name, result in results.items()}
    for name, result in shifted.items():
        told = result.count_none(NONE)
        print(f"validation, {name}: {result.count_correct()} right, {told} told to be none, of {result.total}")
    logits = np.concatenate([result.logits for result in shifted.values()])
    labels = np.concatenate([result.labels for result in shifted.values()])
    temperature = fit_temperature(logits, labels)
    error = calibration_error(reliability(softmax(logits, temperature), labels))
    print(f"validation, offset {offset}, temperature {temperature}: expected calibration error {error:.4f}")
    return offset, temperature


def _shift(answers: Answers, offset: float) -> Answers:
    logits = answers.logits.copy()
    logits[:, NONE] -= np.float32(offset)
    return answers._replace(logits=logits)


def apply(tensors: dict[str, np.ndarray], offset: float, temperature: float) -> None:
    """Fold the offset of none and the temperature into the last layer."""
    tensors["output.bias"] = tensors["output.bias"] - np.float32(offset) * (np.arange(NONE + 1) == NONE)
    for part in ("weight", "bias"):
        tensors[f"output.{part}"] = (tensors[f"output.{part}"] / np.float32(temperature)).astype(np.float32)


def _answer(tensors: dict[str, np.ndarray], pictures: Rendering) -> Answers:
    return answer(NETWORK, tensors, pictures.images, pictures.labels, pictures.refused)


def main() -> None:
    """Render, train, calibrate, score with the golden model, and write the file."""
    parser = argparse.ArgumentParser(description="Train digits-cnn.")
    parser.add_argument("--cache", type=Path, metavar="DIRECTORY", help="keeps the rendered pictures")
    parser.add_argument("--validate", action="store_true", help="score the validation split alone, and write nothing")
    options = parser.parse_args()
    sets = Sets(options.cache)
    plain, sources, judged = plain_handwriting(*load_split()[0]), training_sets(sets), validation_sets(sets)
    module = train_on(plain, sources)
    offset, temperature = calibrate(tensors_of(NETWORK, module), judged)
    if options.validate:
        return
    sources[1] = joined([sources[1], judged["fonts"]])
    module = go_on(module, batches([plain, *sources], LAST_SHARES), LAST_STEPS, learning_rate=1e-3, seed=2)
    tensors = tensors_of(NETWORK, module)
    apply(tensors, offset, temperature)
    answers = {name: _answer(tensors, pictures) for name, pictures in held_out_sets(sets).items()}
    write(tensors, answers, offset, temperature)


def write(tensors: dict[str, np.ndarray], answers: dict[str, Answers], offset: float, temperature: float) -> None:
    """Write the model file and the diagram, with what the answers to the held-out sets come to."""
    scores, parts, bins = held_out_scores(answers)
    error = print_parts(parts, bins)
    metadata = {
        "trained_on": "UCI handwritten digits (scikit-learn's copy), first 11 of 14 forms, digits rendered in "
        f"{len(TRAINING_FAMILIES)} font families, and letters, scripts, pictograms, "
        "drawings, parts of digits and rows of digits as what is none, distorted and badly lit; seed 0",
        "accuracy": accuracy_metadata(scores),
        "refusals": json.dumps([{"on": on, "refused": count, "total": total} for on, count, total in parts]),
        "calibration": json.dumps(
            {"offset": offset, "temperature": temperature, "expected_error": round(error, 4), "bins": bins}
        ),
        "license": "Apache-2.0",
    }
    save_model(WEIGHTS_DIRECTORY / f"{NETWORK.name}.safetensors", NETWORK, tensors, metadata)
    draw_reliability(bins, f"{NETWORK.name} on held-out pictures", DIAGRAM)


if __name__ == "__main__":
    main()

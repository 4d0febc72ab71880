"""Train `digits-cnn`: a picture of a digit, preprocessed to 1x32x32, to ten digits or none ("-").

`python -m trninfer.tools.train_digits_cnn` writes weights/digits-cnn.safetensors, its card weights/digits-cnn.md and
docs/digits-cnn-reliability.svg. Seeds 0, 1 and 2. Trained on
- the first eleven forms of the UCI digits that scikit-learn ships (1,415 digits), as plain pictures and as 8,000
  distorted and badly lit ones,
- 14,500 distorted and badly lit pictures of digits in the fonts of TRAINING_FAMILIES (`fonts.py`), 2,500 of them small,
  those of VALIDATION_FAMILIES in the last of three rounds alone,
- some 12,000 pictures of what is no digit (`render_nondigits.py`),
- 82,000 glyphs of both, which no picture was made of (`render_glyphs.py`),
each put through the preprocessing that a user's picture goes through, or its last step, and distorted a little more in
every batch. Scored on the last three forms (382 digits), as plain pictures, on 2,000 pictures of digits in the fonts of
HELD_OUT_FAMILIES, and on 2,800 pictures of what is no digit, of families that are never trained on; a digit that is
refused, or in which no ink is found, counts as wrong.

Settings are chosen, and the temperature is fitted, on the fonts of VALIDATION_FAMILIES and the validation side of what
is no digit, after two rounds of training without them; a short third one takes those fonts in as well. `--validate`
stops before anything held out is scored, and writes nothing. `--cache DIRECTORY` keeps the rendered pictures, which
take most of the time, and checkpoints of the training. `--score` trains nothing: it scores the network that is there,
and writes its figures again.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from ..models.files import WEIGHTS_DIRECTORY, load_model, save_model
from ..models.network import Conv2d, Dense, Flatten, Network, Output, Softmax
from .calibration import calibration_error, draw_reliability, fit_temperature, reliability, softmax
from .card import Training, write_card
from .fonts import TRAINING_FAMILIES
from .render_digits import INPUT, Rendering
from .render_nondigits import NONE
from .scoring import Answers, accuracy_metadata, answer, classes_by_kernels
from .sets import Sets, held_out_scores, held_out_sets, joined, print_parts, training_sets, validation_sets
from .training import (
    SLIGHT,
    Batch,
    Checkpoint,
    Distortion,
    distort,
    module_for,
    seed_everything,
    tensors_of,
    train,
)

STEPS = (10000, 4000, 1500)  # of three rounds
KEPT_EVERY = 500  # steps
MAX_REFUSED = 0.003  # of the validation fonts' digits
MARGIN = 0.02  # by which the offset of none is smaller, so that a ring that was a smiley is none
SHARES = {  # of each batch
    "plain handwriting": 24,
    "handwriting": 20,
    "fonts": 40,
    "small fonts": 12,
    "no digits": 46,
    "glyphs, digits": 44,
    "glyphs, handwriting": 10,
    "glyphs, letters": 10,
    "glyphs, scripts": 26,
    "glyphs, pictograms": 8,
    "glyphs, turned digits": 5,
    "glyphs, strokes": 7,
    "glyphs, overlaps": 4,
}
SECOND_SHARES = {**SHARES, "glyphs, variants": 16}
LAST_SHARES = {**SECOND_SHARES, "fonts": 56}  # with the validation fonts among them
# Of the later rounds, in which glyphs are bent to other fonts' shapes.
MORE = Distortion(rotation=0.09, scale=0.1, shear=0.1, shift_x=0.08, shift_y=0.08, bend=0.045)
DIAGRAM = WEIGHTS_DIRECTORY.parent / "docs" / "digits-cnn-reliability.svg"

NETWORK = Network(
    "digits-cnn",
    INPUT,
    (
        Conv2d("conv1", 1, 8, kernel_size=(3, 3), padding=(1, 1, 1, 1), pool_size=2, activation="relu"),
        Conv2d("conv2", 8, 32, kernel_size=(3, 3), padding=(1, 1, 1, 1), pool_size=2, activation="relu"),
        Conv2d("conv3", 32, 64, kernel_size=(3, 3), padding=(1, 1, 1, 1), pool_size=2, activation="relu"),
        Conv2d("conv4", 64, 128, kernel_size=(3, 3), padding=(1, 1, 1, 1), activation="relu"),
        Flatten("flatten"),
        Dense("output", 128 * 4 * 4, 11),
        Softmax("softmax"),
    ),
    (*"0123456789", "-"),
    Output("classes", "softmax", none="-"),
)


def batches(sources: dict[str, Rendering], shares: Mapping[str, int], limits: Distortion) -> Iterator[Batch]:
    """Endless batches with these shares of each source, distorted within limits, and in stroke, focus and tone too.

    The first source is plain, and distorted the most.
    """
    tensors = {
        name: (torch.from_numpy(source.images), torch.from_numpy(source.labels).long())
        for name, source in sources.items()
    }
    while True:
        images, targets = [], []
        for name, share in shares.items():
            source, labels = tensors[name]
            chosen = torch.randint(0, len(source), (share,))
            images.append(source[chosen])
            targets.append(labels[chosen])
        plain = distort(images[0], Distortion(shift_x=0.1, shift_y=0.1))
        x = _out_of_focus(torch.cat([plain, distort(torch.cat(images[1:]), limits)]))
        x = x ** torch.exp(0.3 * torch.randn(len(x), 1, 1, 1))
        x = x + 0.06 * torch.rand(len(x), 1, 1, 1) * torch.randn_like(x)
        yield x.clamp(0, 1), torch.cat(targets)


def _out_of_focus(x: torch.Tensor) -> torch.Tensor:
    """A quarter of the images with thicker strokes, a fifth thinner, a quarter blurred, one in eight coarse."""
    n = len(x)
    stroke, change = torch.rand(n, 1, 1, 1), 0.6 * torch.rand(n, 1, 1, 1)
    thicker, thinner = F.max_pool2d(x, 3, 1, 1), -F.max_pool2d(-x, 3, 1, 1)
    x = torch.where(stroke < 0.25, x.lerp(thicker, change), torch.where(stroke > 0.8, x.lerp(thinner, change), x))
    blurred = x.lerp(F.avg_pool2d(x, 3, 1, 1), torch.rand(n, 1, 1, 1))
    x = torch.where(torch.rand(n, 1, 1, 1) < 0.25, blurred, x)
    coarse = torch.rand(n) < 0.125
    side = int(torch.randint(8, 20, ()))
    small = F.interpolate(x[coarse], size=(side, side), mode="area")
    x[coarse] = F.interpolate(small, size=x.shape[2:], mode="bilinear", align_corners=False)
    return x


def train_on(
    sources: dict[str, Rendering], judged: dict[str, Rendering], kept: Path | None
) -> tuple[nn.Sequential, nn.Sequential]:
    """The network trained on the sources in two rounds, and after a third with the validation fonts among them.

    Each round begins with the average of the one before. With `kept`, it goes on from its checkpoint in this folder,
    and is scored by `judged` whenever one is kept.
    """

    def watch(average: nn.Sequential) -> None:
        calibrate(tensors_of(NETWORK, average), judged)

    def go(number: int, before: nn.Sequential | None, source: Iterator[Batch], learning_rate: float) -> nn.Sequential:
        seed_everything(number - 1)
        module = module_for(NETWORK, dropout=0.2, normalize=True)
        if before is not None:
            module.load_state_dict(before.state_dict())
        return train(
            module,
            lambda: source,
            STEPS[number - 1],
            learning_rate,
            weight_decay=2e-2,
            bfloat16=True,
            smoothing=0.0,
            average_decay=0.999,
            checkpoint=Checkpoint(kept / f"round-{number}.pt", KEPT_EVERY, watch) if kept else None,
        )

    first = go(1, None, batches(sources, SHARES, SLIGHT), 5e-3)
    second = go(2, first, batches(sources, SECOND_SHARES, MORE), 3e-3)
    every = {**sources, "fonts": joined([sources["fonts"], judged["fonts"]])}
    return second, go(3, second, batches(every, LAST_SHARES, MORE), 1e-3)


def calibrate(tensors: dict[str, np.ndarray], judged: dict[str, Rendering]) -> tuple[float, float]:
    """(what is taken off the logit of none, temperature), by the validation split; prints its scores with them.

    The offset is the smallest with which at most MAX_REFUSED of the validation fonts' digits are refused, less MARGIN
    and rounded down to a twentieth.
    """
    results = {name: _answer(tensors, each) for name, each in judged.items()}
    digits = results["fonts"].logits
    lead = np.sort(digits[:, NONE] - digits[:, :NONE].max(axis=1))
    offset = max(0.0, math.floor(20 * (float(lead[-1 - int(MAX_REFUSED * len(lead))]) - MARGIN)) / 20)
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
    parser.add_argument("--score", action="store_true", help="score the network that is there, and write its figures")
    options = parser.parse_args()
    sets = Sets(options.cache)
    sources = training_sets(sets)
    if options.score:
        model = load_model(NETWORK.name)
        fitted = json.loads(model.metadata["calibration"])
        write(sets, model.tensors, _training(sources, fitted["offset"], fitted["temperature"]))
        return
    judged = validation_sets(sets)
    judged_module, module = train_on(sources, judged, options.cache)
    offset, temperature = calibrate(tensors_of(NETWORK, judged_module), judged)
    if options.validate:
        return
    tensors = tensors_of(NETWORK, module)
    apply(tensors, offset, temperature)
    write(sets, tensors, _training(sources, offset, temperature))


def _training(sources: dict[str, Rendering], offset: float, temperature: float) -> Training:
    return Training(sources, (SHARES, SECOND_SHARES, LAST_SHARES), STEPS, MAX_REFUSED, offset, temperature)


def write(sets: Sets, tensors: dict[str, np.ndarray], training: Training) -> None:
    """Write the model file, the diagram and the card, with what the answers to the held-out sets come to."""
    held_out = held_out_sets(sets)
    answers = {name: _answer(tensors, pictures) for name, pictures in held_out.items()}
    by_kernels = {name: classes_by_kernels(NETWORK, tensors, each.images) for name, each in held_out.items()}
    differing = sum(int((by_kernels[name] != each.classes).sum()) for name, each in answers.items())
    scores, parts, bins = held_out_scores(answers)
    error = print_parts(parts, bins)
    metadata = {
        "trained_on": "UCI handwritten digits (scikit-learn's copy), first 11 of 14 forms, digits rendered in "
        f"{len(TRAINING_FAMILIES)} font families, and letters, scripts, pictograms, "
        "drawings, parts of digits and rows of digits as what is none, distorted and badly lit; seeds 0 to 2",
        "accuracy": accuracy_metadata(scores),
        "refusals": json.dumps([{"on": on, "refused": count, "total": total} for on, count, total in parts]),
        "calibration": json.dumps(
            {
                "offset": training.offset,
                "temperature": training.temperature,
                "expected_error": round(error, 4),
                "bins": bins,
            }
        ),
        "license": "Apache-2.0",
    }
    save_model(WEIGHTS_DIRECTORY / f"{NETWORK.name}.safetensors", NETWORK, tensors, metadata)
    draw_reliability(bins, f"{NETWORK.name} on held-out pictures", DIAGRAM)
    write_card(WEIGHTS_DIRECTORY / f"{NETWORK.name}.md", NETWORK, training, scores, parts, bins, differing)


if __name__ == "__main__":
    main()

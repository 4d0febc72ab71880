"""Train `digits-cnn`: a picture of a digit, preprocessed to 1x32x32, to ten digits or none ("-").

`python -m trninfer.tools.train_digits_cnn` writes weights/digits-cnn.safetensors, its card weights/digits-cnn.md and
docs/digits-cnn-reliability.svg. Seeds 0 to 2. Trained on
- the first eleven forms of the UCI digits that scikit-learn ships (1,415 digits), as plain pictures and as 6,000
  distorted and badly lit ones,
- 10,500 distorted and badly lit pictures of digits in the fonts of TRAINING_FAMILIES (`fonts.py`), 1,500 of them small,
- some 9,000 pictures of what is no digit (`render_nondigits.py`),
- 115,000 glyphs of both, which no picture was made of (`render_glyphs.py`),
each put through the preprocessing that a user's picture goes through, or its last step, and distorted a little more in
every batch. Scored on the last three forms (382 digits), as plain pictures, on 2,000 pictures of digits in the fonts of
HELD_OUT_FAMILIES, and on 2,800 pictures of what is no digit, of families that are never trained on; a digit that is
refused, or in which no ink is found, counts as wrong.

Three rounds: glyphs alone, all of these, and a short one with the pictures of VALIDATION_FAMILIES as well.
Settings are chosen, and the offset of none and the temperature are fitted, after the second round, on those fonts and
the validation side of what is no digit. `--validate` stops before anything held out is scored, and writes nothing.
`--cache DIRECTORY` keeps the rendered pictures, which take half of the time, and checkpoints of the training. `--score`
trains nothing: it scores the network that is there, and writes its figures again.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
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
from .sets import Sets, glyph_sets, held_out_scores, held_out_sets, joined, picture_sets, print_parts, validation_sets
from .training import (
    Batch,
    Checkpoint,
    Distortion,
    distort,
    module_for,
    seed_everything,
    tensors_of,
    train,
)

STEPS = (16000, 20000, 2000)  # of three rounds
CYCLES = (17000, 20000, 2000)  # of the learning rate: the first round ends before it is low
RATES = (5e-3, 3e-3, 1e-3)  # the highest of each round
RISING = (0.3, 0.05, 0.3)  # the share of a cycle in which it rises
KEPT_EVERY = 2000  # steps
MAX_REFUSED = 0.006  # of the validation fonts' digits
FIRST_SHARES = {  # of each batch
    "plain handwriting": 24,
    "glyphs, digits": 84,
    "glyphs, handwriting": 20,
    "glyphs, variants": 26,
    "glyphs, letters": 18,
    "glyphs, scripts": 42,
    "glyphs, pictograms": 18,
    "glyphs, drawings": 14,
    "glyphs, turned digits": 5,
    "glyphs, strokes": 7,
    "glyphs, overlaps": 5,
}
SECOND_SHARES = {
    "plain handwriting": 24,
    "handwriting": 20,
    "fonts": 40,
    "small fonts": 10,
    "no digits": 44,
    "glyphs, digits": 40,
    "glyphs, handwriting": 10,
    "glyphs, variants": 20,
    "glyphs, letters": 9,
    "glyphs, common signs": 5,
    "glyphs, scripts": 24,
    "glyphs, pictograms": 14,
    "glyphs, drawings": 11,
    "glyphs, turned digits": 3,
    "glyphs, strokes": 4,
    "glyphs, overlaps": 4,
}
LAST_SHARES = {**SECOND_SHARES, "fonts": 56}  # the validation fonts among the fonts
SHARES = (FIRST_SHARES, SECOND_SHARES, LAST_SHARES)
# Glyphs are bent to other fonts' shapes.
MORE = Distortion(rotation=0.09, scale=0.1, shear=0.1, shift_x=0.08, shift_y=0.08, bend=0.045)
DIAGRAM = WEIGHTS_DIRECTORY.parent / "docs" / "digits-cnn-reliability.svg"

NETWORK = Network(
    "digits-cnn",
    INPUT,
    (
        Conv2d("conv1", 1, 8, kernel_size=(3, 3), padding=(1, 1, 1, 1), pool_size=2, activation="relu"),
        Conv2d("conv2", 8, 32, kernel_size=(3, 3), padding=(1, 1, 1, 1), pool_size=2, activation="relu"),
        Conv2d("conv3", 32, 64, kernel_size=(3, 3), padding=(1, 1, 1, 1), pool_size=2, activation="relu"),
        Conv2d("conv4", 64, 64, kernel_size=(3, 3), padding=(1, 1, 1, 1), activation="relu"),
        Conv2d("conv5", 64, 128, kernel_size=(3, 3), padding=(1, 1, 1, 1), activation="relu"),
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
    stroke, change = torch.rand(n), 0.6 * torch.rand(n, 1, 1, 1)
    thick, thin, blurred = stroke < 0.25, stroke > 0.8, torch.rand(n) < 0.25
    x[thick] = x[thick].lerp(F.max_pool2d(x[thick], 3, 1, 1), change[thick])
    x[thin] = x[thin].lerp(-F.max_pool2d(-x[thin], 3, 1, 1), change[thin])
    x[blurred] = x[blurred].lerp(F.avg_pool2d(x[blurred], 3, 1, 1), torch.rand(n, 1, 1, 1)[blurred])
    coarse = torch.rand(n) < 0.125
    side = int(torch.randint(8, 20, ()))
    small = F.interpolate(x[coarse], size=(side, side), mode="area")
    x[coarse] = F.interpolate(small, size=x.shape[2:], mode="bilinear", align_corners=False)
    return x


def train_on(
    rounds: Iterable[Callable[[], dict[str, Rendering]]], judged: dict[str, Rendering], kept: Path | None
) -> list[nn.Sequential]:
    """The networks after each round; its sources are rendered when it begins, with the average of the one before.

    With `kept`, each round goes on from its checkpoint in this folder, and is scored by `judged` whenever one is kept.
    """

    def watch(average: nn.Sequential) -> None:
        calibrate(tensors_of(NETWORK, average), judged)

    trained: list[nn.Sequential] = []
    for number, sources in enumerate(rounds):
        source = batches(sources(), SHARES[number], MORE)
        seed_everything(number)
        module = module_for(NETWORK, dropout=0.2, normalize=True)
        if trained:
            module.load_state_dict(trained[-1].state_dict())
        average = train(
            module,
            lambda source=source: source,  # type: ignore[misc]
            STEPS[number],
            RATES[number],
            weight_decay=2e-2,
            bfloat16=True,
            smoothing=0.0,
            average_decay=0.999,
            checkpoint=Checkpoint(kept / f"round-{number + 1}.pt", KEPT_EVERY, watch) if kept else None,
            cycle=CYCLES[number],
            rising=RISING[number],
        )
        trained.append(average)
    return trained


def calibrate(tensors: dict[str, np.ndarray], judged: dict[str, Rendering]) -> tuple[float, float]:
    """(what is taken off the logit of none, temperature), by the validation split; prints its scores with them.

    The offset is the smallest with which at most MAX_REFUSED of the validation fonts' digits are refused.
    """
    results = {name: _answer(tensors, each) for name, each in judged.items()}
    digits = results["fonts"].logits
    lead = np.sort(digits[:, NONE] - digits[:, :NONE].max(axis=1))
    offset = max(0.0, float(lead[-1 - int(MAX_REFUSED * len(lead))]))
    shifted = {name: _shift(result, offset) for name, result in results.items()}
    for name, result in shifted.items():
        told = result.count_none(NONE)
        print(f"validation, {name}: {result.count_correct()} right, {told} told to be none, of {result.total}")
    logits = np.concatenate([result.logits for result in shifted.values()])
    labels = np.concatenate([result.labels for result in shifted.values()])
    temperature = fit_temperature(logits, labels)
    error = calibration_error(reliability(softmax(logits, temperature), labels))
    print(f"validation, offset {offset:.3f}, temperature {temperature}: calibration error {error:.4f}", flush=True)
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
    if options.score:
        model = load_model(NETWORK.name)
        fitted = json.loads(model.metadata["calibration"])
        sources = {**glyph_sets(sets), **picture_sets(sets)}
        write(sets, model.tensors, _training(sources, fitted["offset"], fitted["temperature"]))
        return
    judged, sources = validation_sets(sets), {}

    def glyphs() -> dict[str, Rendering]:
        sources.update(glyph_sets(sets))
        return sources

    def pictures() -> dict[str, Rendering]:
        sources.update(picture_sets(sets))
        return sources

    def every() -> dict[str, Rendering]:
        return {**sources, "fonts": joined([sources["fonts"], judged["fonts"]])}

    _, judged_module, module = train_on((glyphs, pictures, every), judged, options.cache)
    offset, temperature = calibrate(tensors_of(NETWORK, judged_module), judged)
    if options.validate:
        return
    tensors = tensors_of(NETWORK, module)
    apply(tensors, offset, temperature)
    write(sets, tensors, _training(sources, offset, temperature))


def _training(sources: dict[str, Rendering], offset: float, temperature: float) -> Training:
    return Training(sources, SHARES, STEPS, MAX_REFUSED, offset, temperature)


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

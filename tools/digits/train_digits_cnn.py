"""Train `digits-cnn`, which classifies a picture of a digit, preprocessed to 1x32x32, as one of ten digits or none.

`python -m trninfer.tools.digits.train_digits_cnn` writes weights/digits-cnn.safetensors, its card weights/digits-cnn.md
and docs/digits-cnn-reliability.svg. The training data are

- the first eleven forms of the UCI digits that scikit-learn ships (1,415 digits), as plain pictures and as 6,000
  distorted and badly lit pictures,
- 10,500 distorted and badly lit pictures of digits in the fonts of TRAINING_FAMILIES (`fonts.py`), 1,500 of them small,
- about 9,000 pictures of non-digits (`render_nondigits.py`),
- 150,000 glyphs of digits and non-digits (`render_glyphs.py`).

Pictures are preprocessed like a user's pictures; glyphs pass only through the last step of preprocessing. Both are
slightly distorted again in every batch. The network is scored on the last three forms (382 digits) as plain pictures,
on 2,000 pictures of digits in the fonts of HELD_OUT_FAMILIES, and on 2,800 pictures of non-digits of held-out families.
A digit counts as wrong if it is classified as none or if no ink is found in its picture.

Two larger networks are trained first and teach the small network (ROUNDS). Settings, the offset of none and the
temperature are fitted after the second-to-last round, on the fonts of VALIDATION_FAMILIES and the non-digits for
validation. The last round is also trained on these fonts. `--validate` stops before held-out data are scored, and
writes nothing. `--cache DIRECTORY` stores rendered pictures and checkpoints. `--score` scores the existing network and
rewrites its figures.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from ...models.files import WEIGHTS_DIRECTORY, load_model, save_model
from ...models.layers import Conv2d, Dense, Flatten, Softmax
from ...models.network import Network
from ...models.outputs import Output
from .calibration import calibration_error, draw_reliability, fit_temperature, reliability, softmax
from .card import Round, Training, write_card
from .fonts import TRAINING_FAMILIES
from .render_digits import INPUT, Rendering
from .render_nondigits import NONE, NONE_LABEL
from .scoring import Answers, accuracy_metadata, answer, classes_by_kernels
from .sets import Sets, glyph_sets, held_out_scores, held_out_sets, joined, picture_sets, print_parts, validation_sets
from .training import Batch, Checkpoint, Distortion, distort, module_for, seed_everything, tensors_of, train

KEPT_EVERY = 2000  # steps
MAX_REFUSED = 0.005  # maximum number of refused digits, as a fraction of the digits in validation fonts
SOFTENED = 2.0  # divisor of a teacher's logits
PLAIN_SHARES = {  # shares of each batch
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
# Glyphs written stroke by stroke replace plain strokes, and characters that people are likely to try are more frequent.
WRITTEN_SHARES = {**PLAIN_SHARES, "glyphs, strokes": 0, "glyphs, written digits": 16, "glyphs, made-up signs": 12}
LAST_SHARES = {**PLAIN_SHARES, "glyphs, common signs": 30}
SHARES = (PLAIN_SHARES, WRITTEN_SHARES, LAST_SHARES)
# Glyphs are deformed to the shapes of other fonts.
MORE = Distortion(rotation=0.09, scale=0.1, shear=0.1, shift_x=0.08, shift_y=0.08, bend=0.045)
DIAGRAM = WEIGHTS_DIRECTORY.parent / "docs" / "digits-cnn-reliability.svg"


def _network(name: str, *channels: int) -> Network:
    """Return five 3x3 convolutions, the first three with 2x2 pooling, and a dense layer; `channels` lists the channels
    of each convolution."""
    convolutions = [
        Conv2d(
            f"conv{number}",
            inputs,
            outputs,
            kernel_size=(3, 3),
            padding=(1, 1, 1, 1),
            pool_size=2 if number <= 3 else 1,
            activation="relu",
        )
        for number, (inputs, outputs) in enumerate(pairwise((1, *channels)), 1)
    ]
    layers = (*convolutions, Flatten("flatten"), Dense("output", channels[-1] * 4 * 4, 11), Softmax("softmax"))
    return Network(name, INPUT, layers, (*"0123456789", NONE_LABEL), Output("classes", "softmax", none=NONE_LABEL))


NETWORK = _network("digits-cnn", 8, 32, 64, 64, 128)
TEACHER = _network("teacher", 16, 64, 128, 128, 256)
ROUNDS = (
    Round(TEACHER, 12000, 4e-3, 0.2, seed=7),
    Round(TEACHER, 12000, 4e-3, 0.2, seed=0, shares=1),
    Round(NETWORK, 12000, 4e-3, 0.2, seed=7),
    Round(NETWORK, 20000, 3e-3, 0.1, seed=2, after=2, taught_by=(0,)),
    Round(NETWORK, 8000, 2e-3, 0.1, seed=4, after=3, taught_by=(0, 1)),
    Round(
        NETWORK,
        2000,
        1e-3,
        0.3,
        seed=3,
        after=4,
        taught_by=(0, 1),
        shares=2,
        sure=("glyphs, common signs",),
        validation_fonts=True,
    ),
)
JUDGED = len(ROUNDS) - 2  # the round after which the offset and the temperature are fitted


def batches(
    sources: dict[str, Rendering],
    limits: Distortion,
    shares: Mapping[str, int] = PLAIN_SHARES,
    teachers: Sequence[nn.Module] = (),
    sure: Collection[str] = (),
) -> Iterator[Batch]:
    """Yield batches endlessly, with the given shares of the sources.

    Images are distorted within limits, and their stroke width, focus and tone are changed.

    The first source is undistorted handwriting, which is distorted the most. Targets are labels or, if there are
    teachers, the mean of their softened probabilities; samples of `sure` sources keep their labels.
    """
    tensors = {
        name: (torch.from_numpy(source.images), torch.from_numpy(source.labels).long())
        for name, source in sources.items()
    }
    # Fixed mask: these rows train on labels even during distillation.
    by_label = torch.cat([torch.full((share, 1), name in sure) for name, share in shares.items()])
    while True:
        images, targets = [], []
        for name, share in shares.items():
            source, labels = tensors[name]
            indices = torch.randint(0, len(source), (share,))
            images.append(source[indices])
            targets.append(labels[indices])
        plain = distort(images[0], Distortion(shift_x=0.1, shift_y=0.1))
        x = _out_of_focus(torch.cat([plain, distort(torch.cat(images[1:]), limits)]))
        x = x ** torch.exp(0.3 * torch.randn(len(x), 1, 1, 1))
        x = x + 0.06 * torch.rand(len(x), 1, 1, 1) * torch.randn_like(x)
        x = x.clamp(0, 1)
        y = torch.cat(targets)
        if teachers:
            y = torch.where(by_label, F.one_hot(y, NONE + 1), _taught(teachers, x))
        yield x, y


@torch.no_grad()
def _taught(teachers: Sequence[nn.Module], x: torch.Tensor) -> torch.Tensor:
    """Return the mean of the teachers' softened probabilities for a batch."""
    x = x.to(memory_format=torch.channels_last)
    with torch.autocast("cpu", torch.bfloat16):
        logits = [teacher(x).float() for teacher in teachers]
    return torch.stack([F.softmax(teacher_logits / SOFTENED, dim=1) for teacher_logits in logits]).mean(dim=0)


def _out_of_focus(x: torch.Tensor) -> torch.Tensor:
    """Make a quarter of the images thicker and a fifth thinner; blur a quarter, and coarsen one in eight."""
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


def train_rounds(
    sources: dict[str, Rendering], judged: dict[str, Rendering], kept: Path | None
) -> Iterator[nn.Sequential]:
    """Return the running average of the weights after each of ROUNDS.

    If `kept`, a folder, is given, each round resumes from its checkpoint in it, and is scored on `judged` at every
    checkpoint.
    """
    trained: list[nn.Sequential] = []
    for number, training_round in enumerate(ROUNDS):

        def watch(average: nn.Sequential, network: Network = training_round.network) -> None:
            calibrate(network, tensors_of(network, average), judged)

        of_round = (
            {**sources, "fonts": joined([sources["fonts"], judged["fonts"]])}
            if training_round.validation_fonts
            else sources
        )
        teachers = [trained[teacher] for teacher in training_round.taught_by]
        source = batches(of_round, MORE, SHARES[training_round.shares], teachers, training_round.sure)
        seed_everything(training_round.seed)
        module = module_for(training_round.network, dropout=0.2, normalize=True)
        if training_round.after is not None:
            module.load_state_dict(trained[training_round.after].state_dict())
        average = train(
            module,
            lambda source=source: source,  # type: ignore[misc]
            training_round.steps,
            training_round.rate,
            weight_decay=2e-2,
            bfloat16=True,
            smoothing=0.0,
            average_decay=0.999,
            checkpoint=Checkpoint(kept / f"round-{number + 1}.pt", KEPT_EVERY, watch) if kept else None,
            rising=training_round.rising,
        )
        trained.append(average)
        yield average


def calibrate(network: Network, tensors: dict[str, np.ndarray], judged: dict[str, Rendering]) -> tuple[float, float]:
    """Return the offset to subtract from the logit of none, and the temperature.

    Both are fitted on the validation split, whose scores are printed.

    The offset is the smallest for which at most MAX_REFUSED of the digits in validation fonts are refused.
    """
    results = {name: _answer(network, tensors, examples) for name, examples in judged.items()}
    digits = results["fonts"].logits
    lead = np.sort(digits[:, NONE] - digits[:, :NONE].max(axis=1))
    offset = max(0.0, float(lead[-1 - int(MAX_REFUSED * len(lead))]))
    shifted = {name: _shift(result, offset) for name, result in results.items()}
    for name, result in shifted.items():
        refused = result.count_none(NONE)
        print(f"validation, {name}: {result.count_correct()} right, {refused} classified as none, of {result.total}")
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


def _answer(network: Network, tensors: Mapping[str, np.ndarray], pictures: Rendering) -> Answers:
    return answer(network, tensors, pictures.images, pictures.labels, pictures.refused)


def main() -> None:
    """Render, train, calibrate, score with the golden model, and write the file."""
    parser = argparse.ArgumentParser(description="Train digits-cnn.")
    parser.add_argument("--cache", type=Path, metavar="DIRECTORY", help="folder for storing the rendered pictures")
    parser.add_argument("--validate", action="store_true", help="score only the validation split, and write nothing")
    parser.add_argument("--score", action="store_true", help="score the existing network, and write its figures")
    options = parser.parse_args()
    sets = Sets(options.cache)
    sources = {**glyph_sets(sets), **picture_sets(sets)}
    if options.score:
        model = load_model(NETWORK.name)
        fitted = json.loads(model.metadata["calibration"])
        write(sets, model.tensors, _training(sources, fitted["offset"], fitted["temperature"]))
        return
    judged = validation_sets(sets)
    for number, module in enumerate(train_rounds(sources, judged, options.cache)):
        tensors = tensors_of(ROUNDS[number].network, module)
        if number == JUDGED:
            offset, temperature = calibrate(NETWORK, tensors, judged)
            if options.validate:
                return
    apply(tensors, offset, temperature)
    write(sets, tensors, _training(sources, offset, temperature))


def _training(sources: dict[str, Rendering], offset: float, temperature: float) -> Training:
    return Training(sources, SHARES, ROUNDS, MAX_REFUSED, offset, temperature)


def write(sets: Sets, tensors: Mapping[str, np.ndarray], training: Training) -> None:
    """Write the model file, the diagram and the card, with the scores on the held-out sets."""
    held_out = held_out_sets(sets)
    answers = {name: _answer(NETWORK, tensors, pictures) for name, pictures in held_out.items()}
    by_kernels = {name: classes_by_kernels(NETWORK, tensors, examples.images) for name, examples in held_out.items()}
    differing = sum(int((by_kernels[name] != examples.classes).sum()) for name, examples in answers.items())
    scores, parts, bins = held_out_scores(answers)
    error = print_parts(parts, bins)
    metadata = {
        "trained_on": "UCI handwritten digits (scikit-learn's copy), first 11 of 14 forms, digits rendered in "
        f"{len(TRAINING_FAMILIES)} font families, and letters, scripts, pictograms, "
        "drawings, parts of digits and rows of digits as non-digits, distorted and badly lit",
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
    write_card(
        WEIGHTS_DIRECTORY / f"{NETWORK.name}.md",
        NETWORK,
        training,
        scores=scores,
        parts=parts,
        bins=bins,
        differing=differing,
    )


if __name__ == "__main__":
    main()

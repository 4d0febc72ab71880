"""Write the card of `digits-cnn`: digits_cnn_card.md, filled in with the results of a training run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import NamedTuple

from ...models.layers import Conv2d, Dense, Layer
from ...models.network import Network
from . import shapes, signs
from .calibration import Bin, calibration_error
from .fonts import HELD_OUT_FAMILIES, TRAINING_FAMILIES, VALIDATION_FAMILIES
from .lookalikes import MAX_LIKENESS, SQUEEZES, TURNS, VARIANTS
from .render_digits import HELD_OUT_PICTURES, Rendering
from .render_glyphs import FURTHER_SCRIPTS
from .render_nondigits import COUNTS, NONE
from .scoring import Score
from .sets import SCORED_ON_DIGITS, SCORED_ON_FONTS, SCORED_ON_SIGNS

TEMPLATE = Path(__file__).with_name("digits_cnn_card.md")

# The minimum fraction that each evaluation set must reach or, for rates that should be low, the maximum.
AT_LEAST = {SCORED_ON_DIGITS: 0.992, SCORED_ON_FONTS: 0.99, SCORED_ON_SIGNS: 0.97}
AT_MOST = {"digits wrongly refused": 0.005}
CALIBRATION_ERROR = 0.01
IN_SHORT = {
    SCORED_ON_DIGITS: "accuracy, held-out digits enlarged",
    SCORED_ON_FONTS: "accuracy, held-out fonts",
    SCORED_ON_SIGNS: "held-out scripts and pictograms refused",
}


class Round(NamedTuple):
    """A round of training: the network, its teachers and its length."""

    network: Network
    steps: int
    rate: float  # the highest learning rate
    rising: float  # fraction of the steps during which the rate rises
    seed: int = 0
    after: int | None = None  # the round whose averaged weights initialize this one
    taught_by: tuple[int, ...] = ()  # rounds whose averaged weights are the teachers; empty to train on labels
    shares: int = 0  # index of the batch shares in the training
    sure: tuple[str, ...] = ()  # sources whose labels are used even when teachers are available
    validation_fonts: bool = False  # whether the validation fonts are included


class Training(NamedTuple):
    """The training of a network: its sources, their shares of a batch, the rounds, and the fitted values."""

    sources: Mapping[str, Rendering]
    shares: Sequence[Mapping[str, int]]
    rounds: Sequence[Round]
    most_refused: float  # as a fraction of the digits in validation fonts
    offset: float
    temperature: float


def describe_layers(network: Network) -> str:
    """Describe the layers in one line."""
    return "; ".join(filter(None, map(_describe, network.layers)))


def _describe(layer: Layer) -> str:
    activation = getattr(layer, "activation", "identity")
    ending = f", {activation}" if activation != "identity" else ""
    if isinstance(layer, Conv2d):
        ending += f", max pool {layer.pool_size}" if layer.pool_size > 1 else ""
        return f"conv {'x'.join(map(str, layer.kernel_size))}, {layer.in_channels} → {layer.out_channels}{ending}"
    if isinstance(layer, Dense):
        return f"dense {layer.in_features} → {layer.out_features}{ending}"
    return layer.kind


def verdict(scores: Sequence[Score], parts: Sequence[Score], error: float) -> str:
    """Return a sentence that lists the goals that were reached and those that were missed."""
    shares = {on: count / total for on, count, total in (*scores, *parts)}
    reached = {IN_SHORT[on]: shares[on] >= least for on, least in AT_LEAST.items()}
    reached |= {on: shares[on] <= most for on, most in AT_MOST.items()}
    reached["calibration error"] = error <= CALIBRATION_ERROR
    lines = []
    for word, is_so in (("Reached", True), ("Not reached", False)):
        names = [on for on, so in reached.items() if so == is_so]
        if names:
            lines.append(f"{word}: {'; '.join(names)}.")
    return " ".join(lines)


def write_card(
    path: Path,
    network: Network,
    training: Training,
    scores: Sequence[Score],
    parts: Sequence[Score],
    bins: Sequence[Bin],
    differing: int,
) -> None:
    """Write the card of a trained, calibrated and scored network.

    `differing` is the number of inputs for which the kernels and the network predict different classes.
    """
    totals = {on: total for on, _, total in (*scores, *parts)}
    error = round(calibration_error(bins), 4)
    answers = sum(point.answers for point in bins)
    values = {
        "layers": describe_layers(network),
        "parameters": f"{sum(map(math.prod, network.tensor_shapes().values())):,}",
        "held_out_digits": f"{totals[SCORED_ON_DIGITS]:,}",
        "held_out_fonts": f"{HELD_OUT_PICTURES:,}",
        "held_out_none": f"{sum(COUNTS['held-out']):,}",
        "held_out_signs": f"{totals[SCORED_ON_SIGNS]:,}",
        "scores": _rows([(IN_SHORT[on], count, total) for on, count, total in scores]),
        "parts": _rows(parts),
        "error": f"{error:.4f}",
        "verdict": verdict(scores, parts, error),
        "answers": f"{answers:,}",
        "by_kernels": f"With the kernels (the whole network in one launch, in float32, on the simulator), "
        f"{differing or 'none'} of these {answers:,} answers {'differs' if differing < 2 else 'differ'}.",
        "most_refused": f"{100 * training.most_refused:g}",
        "offset": f"{training.offset:.2f}",
        "temperature": f"{training.temperature:.2f}",
        **_of_sources(training),
        **_of_families(),
    }
    path.write_text(Template(TEMPLATE.read_text("utf-8")).substitute(values), "utf-8")


def _of_sources(training: Training) -> dict[str, str]:
    counts = {name: len(source.labels) for name, source in training.sources.items()}
    none = sum(int((source.labels == NONE).sum()) for source in training.sources.values())
    rows = [
        f"| {name} | {count:,} | " + " | ".join(str(shares.get(name, 0)) for shares in training.shares) + " |"
        for name, count in counts.items()
    ]
    return {
        "digits": f"{sum(counts.values()) - none:,}",
        "none": f"{none:,}",
        "sources": "\n".join(rows),
        "rounds": "\n".join(
            _describe_round(number, training_round) for number, training_round in enumerate(training.rounds, 1)
        ),
    }


def _describe_round(number: int, each: Round) -> str:
    """Return a row of the table of rounds, numbered from 1."""
    channels = ", ".join(str(layer.out_channels) for layer in each.network.layers if isinstance(layer, Conv2d))
    begins = "random weights" if each.after is None else f"the average of round {each.after + 1}"
    teachers = " and ".join(str(teacher + 1) for teacher in each.taught_by)
    learns = f"the answers of round {teachers}" if teachers else "the labels"
    learns += f", the labels of {' and '.join(each.sure)}" if each.sure else ""
    fonts = ", the validation fonts as well" if each.validation_fonts else ""
    batch = "ABC"[each.shares]
    return f"| {number} | {channels} | {begins} | {learns}{fonts} | {batch} | {each.steps:,} | {each.rate:g} |"


def _of_families() -> dict[str, str]:
    names = signs.HELD_OUT_SCRIPTS
    written = {"CanadianAboriginal": "Canadian Aboriginal", "LinearB": "Linear B", "OlChiki": "Ol Chiki"}
    shown_names = [written.get(name, name) for name in names]
    counts = {
        "families": len(TRAINING_FAMILIES) + len(HELD_OUT_FAMILIES),
        "training_families": len(TRAINING_FAMILIES) - len(VALIDATION_FAMILIES),
        "validation_families": len(VALIDATION_FAMILIES),
        "held_out_families": len(HELD_OUT_FAMILIES),
        "training_scripts": len(signs.TRAINING_SCRIPTS),
        "validation_scripts": len(signs.VALIDATION_SCRIPTS),
        "held_out_scripts": len(names),
        "further_scripts": len(FURTHER_SCRIPTS),
        "training_pictograms": len(signs.TRAINING_PICTOGRAMS),
        "validation_pictograms": len(signs.VALIDATION_PICTOGRAMS),
        "training_shapes": len(shapes.TRAINING_SHAPES),
        "validation_shapes": len(shapes.VALIDATION_SHAPES),
        "held_out_shapes": len(shapes.HELD_OUT_SHAPES),
        "likeness": MAX_LIKENESS,
        "variants": VARIANTS,
        "distortions": 2 * len(TURNS) * len(SQUEEZES),
    }
    return {
        **{name: str(value) for name, value in counts.items()},
        "held_out_script_names": f"{', '.join(shown_names[:-1])} and {shown_names[-1]}",
    }


def _rows(scores: Sequence[Score]) -> str:
    return "\n".join(f"| {on} | {count} of {total}, {100 * count / total:.2f} % |" for on, count, total in scores)

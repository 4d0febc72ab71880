"""Train `digits-detect`, which finds the boxes of digits in a grey picture that is fitted into 1x128x128.

`python -m trninfer.tools.digits.train_digits_detect` writes weights/digits-detect.safetensors and its card
weights/digits-detect.md. The network is trained on 20,000 compositions (`compositions.py`) of digits in the fonts of
TRAINING_FAMILIES, except for validation families, and of the first eight forms of the UCI digits that scikit-learn
ships. It is scored on 1,000 compositions of the fonts of HELD_OUT_FAMILIES and the last three forms.

`--cache DIRECTORY` stores the compositions. `--validate` scores the validation split and writes nothing.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from string import Template

import numpy as np
import torch
from torch import nn

from ...inference.boxes import Limits, find_boxes
from ...models.boxes import BoxHead
from ...models.files import WEIGHTS_DIRECTORY, save_model
from ...models.golden import run_network
from ...models.inputs import ImageInput
from ...models.layers import Concat, Conv2d, Layer, Transpose
from ...models.network import Network
from ...models.outputs import Output
from .box_scoring import iou_of, score
from .compositions import PADDING, SIDE, Composition, compositions
from .detector import CLASSES, STEPS, STRIDES, Detector, train
from .fonts import HELD_OUT_FAMILIES, TRAINING_FAMILIES, VALIDATION_FAMILIES

NAME = "digits-detect"
TEMPLATE = Path(__file__).with_name("digits_detect_card.md")
SCORED_ON = "digits found in compositions, held-out fonts and forms"
CONFIDENCE = 0.25
LEAST_CONFIDENCE = 0.01  # minimum confidence of boxes that count for the average precision
TRAINING, VALIDATION, HELD_OUT = 20_000, 600, 1_000  # compositions
INPUT = ImageInput(
    channels=1,
    height=SIDE,
    width=SIDE,
    preprocess="photo",
    mean=(PADDING,),
    std=(1.0,),
    resize=SIDE,
    resize_mode="pad",
    pad_colour=round(255 * PADDING),
)


def to_network(model: Detector, offset: float) -> tuple[Network, dict[str, np.ndarray]]:
    """Return the trained module as a network, with normalizations folded into convolutions, and its tensors.

    The outputs of each grid become rows, one per cell, and the rows of both grids are concatenated. `offset` is added
    to all logits.
    """
    layers: list[Layer] = []
    tensors: dict[str, np.ndarray] = {}

    def add(part: nn.Module, source: str) -> str:
        for convolution, norm in convolutions_of(part):
            weight, bias = folded(convolution, norm)
            stride, padding = int(convolution.stride[0]), int(convolution.padding[0])
            layer = Conv2d(
                f"conv{len(tensors) // 2 + 1}",
                convolution.in_channels,
                convolution.out_channels,
                kernel_size=(convolution.kernel_size[0], convolution.kernel_size[1]),
                padding=(padding,) * 4,
                activation="identity" if norm is None else "relu",
                stride=(stride, stride),
                inputs=(source,),
            )
            layers.append(layer)
            tensors[f"{layer.name}.weight"] = weight.numpy().astype(np.float32)
            shift = np.zeros(len(bias), np.float32)
            shift[4:] = offset if norm is None else 0.0
            tensors[f"{layer.name}.bias"] = bias.numpy().astype(np.float32) + shift
            source = layer.name
        return source

    def rows(source: str, stride: int) -> str:
        side = SIDE // stride
        shape = (4 + CLASSES, side * side)
        layers.append(Transpose(f"rows{stride}", shape, (1, 0), (math.prod(shape),), inputs=(source,)))
        return f"rows{stride}"

    fine = add(model.fine, "input")
    parts = [rows(add(model.fine_head, fine), STRIDES[0])]
    parts.append(rows(add(model.coarse_head, add(model.coarse, fine)), STRIDES[1]))
    layers.append(Concat("boxes", inputs=tuple(parts)))
    cells = sum((SIDE // stride) ** 2 for stride in STRIDES)
    head = BoxHead(CLASSES, layout="rows", code="cells", scores="logits", strides=STRIDES)
    return (
        Network(
            NAME,
            INPUT,
            tuple(layers),
            tuple("0123456789"),
            Output("boxes", boxes=head),
            output_name="boxes",
            output_shape=(cells, 4 + CLASSES),
        ),
        tensors,
    )


def convolutions_of(part: nn.Module) -> Iterator[tuple[nn.Conv2d, nn.BatchNorm2d | None]]:
    """Yield the convolutions of a module in order, each with the normalization that follows it."""
    layers = [layer for layer in part.modules() if isinstance(layer, (nn.Conv2d, nn.BatchNorm2d))]
    for number, layer in enumerate(layers):
        if isinstance(layer, nn.Conv2d):
            after = layers[number + 1] if number + 1 < len(layers) else None
            yield layer, after if isinstance(after, nn.BatchNorm2d) else None


def folded(convolution: nn.Conv2d, norm: nn.BatchNorm2d | None) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the weight and bias of a convolution with its normalization folded in."""
    weight = convolution.weight.detach()
    bias = torch.zeros(len(weight)) if convolution.bias is None else convolution.bias.detach()
    if norm is None:
        return weight, bias
    mean, variance = norm.running_mean, norm.running_var
    assert mean is not None and variance is not None
    scale = norm.weight.detach() / torch.sqrt(variance + norm.eps)
    return weight * scale.reshape(-1, 1, 1, 1), (bias - mean) * scale + norm.bias.detach()


def answer(network: Network, tensors: Mapping[str, np.ndarray], examples: Sequence[Composition]) -> list[np.ndarray]:
    """Return the boxes [n, 6] (class, confidence, corners) in each picture, computed by the golden model."""
    head = network.output.boxes
    assert head is not None
    answers = []
    for first in range(0, len(examples), 50):
        images = np.stack([example.image for example in examples[first : first + 50]])
        x = images[:, None].astype(np.float32) / 255 - np.float32(PADDING)
        for numbers in run_network(network, tensors, x).scores:
            table = numbers.reshape(network.output_shape)
            boxes = find_boxes(head, (SIDE, SIDE), table, {}, Limits(confidence=LEAST_CONFIDENCE))
            answers.append(np.concatenate([boxes.classes[:, None], boxes.confidences[:, None], boxes.corners], axis=1))
    return answers


def fit_offset(model: Detector, examples: Sequence[Composition]) -> float:
    """Return the offset of all logits that maximizes F1 over boxes above CONFIDENCE."""
    answers = answer(*to_network(model, 0.0), examples)
    truths = [example.boxes for example in examples]

    def f1(threshold: float) -> float:
        result = score(answers, truths, CLASSES, threshold)
        return 2 * result.precision * result.recall / max(1e-9, result.precision + result.recall)

    best = max(np.arange(0.2, 0.7, 0.02).tolist(), key=f1)
    return math.log(CONFIDENCE / (1 - CONFIDENCE)) - math.log(best / (1 - best))


def write(model: Detector, sets: Sets) -> None:
    """Write the model file and its card, with the scores of the predictions for the held-out compositions."""
    offset = fit_offset(model, sets.get("validation", VALIDATION))
    network, tensors = to_network(model, offset)
    examples = sets.get("held-out", HELD_OUT)
    answers = answer(network, tensors, examples)
    truths = [example.boxes for example in examples]
    overall = score(answers, truths, CLASSES, CONFIDENCE)
    digits = sum(len(truth) for truth in truths)
    right, box_count = round(overall.recall * digits), sum(int((boxes[:, 1] > CONFIDENCE).sum()) for boxes in answers)
    families = len(TRAINING_FAMILIES) - len(VALIDATION_FAMILIES)
    metadata = {
        "trained_on": f"{TRAINING:,} compositions of digits in {families} font families and of UCI handwritten "
        "digits (scikit-learn's copy), first 8 of 14 forms, among letters and drawings",
        "accuracy": json.dumps([{"on": SCORED_ON, "correct": right, "total": digits}]),
        "boxes": json.dumps(
            {"map_50": round(overall.mean_average_precision, 4), "precision": round(overall.precision, 4)}
        ),
        "license": "Apache-2.0",
    }
    save_model(WEIGHTS_DIRECTORY / f"{NAME}.safetensors", network, tensors, metadata)
    by_height = [
        (low, high, *_found_of_height(answers, truths, low, high)) for low, high in pairwise((0, 14, 20, 32, SIDE + 1))
    ]
    empty = [boxes for boxes, truth in zip(answers, truths, strict=True) if not len(truth)]
    card = Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        parameters=f"{sum(tensor.size for tensor in tensors.values()):,}",
        layers="; ".join(_describe(layer) for layer in network.layers if isinstance(layer, Conv2d)),
        families=families,
        held_out_families=len(HELD_OUT_FAMILIES),
        held_out=f"{len(examples):,}",
        digits=f"{digits:,}",
        map=f"{overall.mean_average_precision:.4f}",
        precision=f"{100 * overall.precision:.2f} %",
        recall=f"{right} of {digits}, {100 * overall.recall:.2f} %",
        answered=box_count,
        confidence=CONFIDENCE,
        quiet=sum(not (boxes[:, 1] > CONFIDENCE).any() for boxes in empty),
        empty=len(empty),
        training=f"{TRAINING:,}",
        steps=f"{STEPS:,}",
        offset=f"{offset:.2f}",
        heights="\n".join(
            f"| {low} to {min(high, SIDE)} | {right} of {total}, {100 * right / max(1, total):.1f} % |"
            for low, high, right, total in by_height
        ),
    )
    (WEIGHTS_DIRECTORY / f"{NAME}.md").write_text(card, encoding="utf-8")
    print(f"held out: {overall}")


def _describe(layer: Conv2d) -> str:
    stride = f" / {layer.stride[0]}" if layer.stride[0] > 1 else ""
    activation = f", {layer.activation}" if layer.activation != "identity" else ""
    size = "x".join(map(str, layer.kernel_size))
    return f"conv {size}{stride}, {layer.in_channels} → {layer.out_channels}{activation}"


def _found_of_height(
    answers: Sequence[np.ndarray], truths: Sequence[np.ndarray], low: float, high: float
) -> tuple[int, int]:
    """Return how many digits within a range of heights in pixels were found, and their total."""
    hits = total = 0
    for boxes, truth in zip(answers, truths, strict=True):
        heights = truth[:, 4] - truth[:, 2]
        digits = truth[(heights >= low) & (heights < high)]
        sure = boxes[boxes[:, 1] > CONFIDENCE]
        overlaps = iou_of(digits[:, 1:], sure[:, 2:]) * (digits[:, :1] == sure[None, :, 0])
        hits += int((overlaps.max(axis=1, initial=0) >= 0.5).sum())
        total += len(digits)
    return hits, total


class Sets:
    """The compositions of each split, cached in a folder if one is given."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def get(self, side: str, count: int) -> list[Composition]:
        """Return the first compositions of a split, from the folder if it contains them; otherwise, create and store
        them."""
        path = None if self._folder is None else self._folder / f"{side}.npz"
        if path is not None and path.is_file():
            with np.load(path) as archive:
                boxes = np.split(archive["boxes"], np.cumsum(archive["counts"])[:-1])
                return [Composition(*fields) for fields in zip(archive["images"], boxes, strict=True)]
        examples = compositions(side, count)
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            np.savez(
                path,
                images=np.stack([example.image for example in examples]),
                counts=np.array([len(example.boxes) for example in examples]),
                boxes=np.concatenate([example.boxes for example in examples]),
            )
        return examples


def main() -> None:
    """Compose pictures, train, score with the golden model, and write the file and its card."""
    parser = argparse.ArgumentParser(description="Train digits-detect.")
    parser.add_argument(
        "--cache", type=Path, metavar="DIRECTORY", help="folder for storing the compositions and the trained weights"
    )
    parser.add_argument("--validate", action="store_true", help="score only the validation side, and write nothing")
    options = parser.parse_args()
    sets = Sets(options.cache)
    checkpoint = None if options.cache is None else options.cache / "weights.pt"
    model = Detector()
    if checkpoint is not None and checkpoint.is_file():
        model.load_state_dict(torch.load(checkpoint, weights_only=True))
        model.eval()
    else:
        model = train(sets.get("training", TRAINING), STEPS, seed=0)
        if checkpoint is not None:
            torch.save(model.state_dict(), checkpoint)
    if options.validate:
        examples = sets.get("validation", VALIDATION)
        network, tensors = to_network(model, fit_offset(model, examples))
        print(score(answer(network, tensors, examples), [example.boxes for example in examples], CLASSES, CONFIDENCE))
        return
    write(model, sets)


if __name__ == "__main__":
    main()

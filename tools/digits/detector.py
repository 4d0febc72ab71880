"""The PyTorch module of `digits-detect`, a small convolutional detector without anchors, and its training.

There are two grids: 16x16 for digits of up to about 32 pixels, and 8x8 for larger digits. Each cell predicts a box, and
a score for each digit. In training, every cell near the centre of a digit learns the box of the digit, but only the
cell whose box is currently the best learns to report the digit. As a result, hardly any duplicate boxes have to be
suppressed.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from .compositions import PADDING, SIDE, Composition
from .training import seed_everything

CLASSES = 10
STRIDES = (8, 16)
SPLIT = 32.0  # pixels: digits whose longer side exceeds this are reported by the coarse grid
OVERLAP = 1.25  # both grids learn the box of digits within this factor of SPLIT
STEPS, BATCH, LEARNING_RATE, WEIGHT_DECAY = 2600, 32, 4e-3, 0.02
AVERAGE_DECAY = 0.998


def block(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    """Return a 3x3 convolution, followed by batch normalization and a ReLU."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)
    )


def head(channels: int) -> nn.Conv2d:
    """Return the last convolution.

    Its outputs are x and y relative to the corner of a cell, in strides, the logarithms of width and height in strides,
    and a logit for each digit.
    """
    last = nn.Conv2d(channels, 4 + CLASSES, 1)
    nn.init.normal_(last.weight, std=0.01)
    with torch.no_grad():
        bias = last.bias
        assert bias is not None
        bias[:4] = torch.tensor([0.5, 0.5, 0.6, 1.0])
        bias[4:] = -5.0
    return last


class Detector(nn.Module):
    """A module that maps [N, 1, 128, 128] to [N, 14, 320], the outputs of `head` for each cell.

    `decode` converts them to boxes in pixels.
    """

    grid: torch.Tensor
    step: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.fine = nn.Sequential(
            block(1, 16, 2), block(16, 32, 2), block(32, 32), block(32, 64, 2), block(64, 64), block(64, 64)
        )
        self.coarse = nn.Sequential(block(64, 96, 2), block(96, 96), block(96, 96))
        self.fine_head = nn.Sequential(block(64, 64), head(64))
        self.coarse_head = head(96)
        grids, steps = [], []
        for stride in STRIDES:
            axis = (torch.arange(SIDE // stride) + 0.5) * stride
            y, x = torch.meshgrid(axis, axis, indexing="ij")
            grids.append(torch.stack([x.flatten(), y.flatten()]))  # centres of cells
            steps.append(torch.full((axis.numel() ** 2,), float(stride)))
        self.register_buffer("grid", torch.cat(grids, 1))
        self.register_buffer("step", torch.cat(steps))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        fine = self.fine(x - PADDING)
        rows = [self.fine_head(fine).flatten(2), self.coarse_head(self.coarse(fine)).flatten(2)]
        return torch.cat(rows, 2).float()

    def decode(self, raw: torch.Tensor) -> torch.Tensor:
        """Return the corners [N, cells, 4] in pixels."""
        middle = self.grid + (raw[:, :2] - 0.5) * self.step
        half = raw[:, 2:4].clamp(-4, 4).exp() * self.step / 2
        return torch.cat([middle - half, middle + half], 1).transpose(1, 2)


class Batch(NamedTuple):
    """Images [N, 1, SIDE, SIDE] in 0..1 and, for each digit in them, the index of the image, the class, and the corners
    of the box."""

    images: torch.Tensor
    owners: torch.Tensor
    classes: torch.Tensor
    boxes: torch.Tensor


def augment(images: torch.Tensor, boxes: Sequence[torch.Tensor]) -> Batch:
    """Randomly shift and scale each image [N, 1, SIDE, SIDE] with its boxes [n, 5], and change its tones."""
    n = len(images)
    scale = torch.where(torch.rand(n) < 0.6, torch.exp(torch.rand(n) * 0.5 - 0.3), torch.ones(n))  # above 1: smaller
    margin = (scale - 1).clamp(min=0.06)
    shift = (torch.rand(n, 2) * 2 - 1) * margin[:, None]
    zeros = torch.zeros(n)
    rows = (torch.stack([scale, zeros, shift[:, 0]], 1), torch.stack([zeros, scale, shift[:, 1]], 1))
    grid = F.affine_grid(torch.stack(rows, 1), list(images.shape), align_corners=False)
    x = F.grid_sample(images - PADDING, grid, align_corners=False) + PADDING
    flipped = torch.rand(n, 1, 1, 1) < 0.3
    x = torch.where(flipped, 1 - x, x)
    gain, middle = torch.exp(0.25 * torch.randn(n, 1, 1, 1)), torch.rand(n, 1, 1, 1)
    x = (x - middle) * gain + middle + 0.04 * torch.rand(n, 1, 1, 1) * torch.randn_like(x)
    blurred = torch.rand(n) < 0.15
    x[blurred] = F.avg_pool2d(F.pad(x[blurred], (1, 1, 1, 1), mode="replicate"), 3, 1)
    owners, classes, corners = [], [], []
    for image, rows_of in enumerate(boxes):
        half = SIDE / 2
        centre = half * (1 - shift[image] / scale[image])
        moved = (rows_of[:, 1:] - half) / scale[image] + torch.cat([centre, centre])
        inside = moved.clamp(0, SIDE)
        area = (inside[:, 2] - inside[:, 0]) * (inside[:, 3] - inside[:, 1])
        full_area = (moved[:, 2] - moved[:, 0]) * (moved[:, 3] - moved[:, 1])
        is_visible = area > 0.5 * full_area
        corners.append(inside[is_visible])
        classes.append(rows_of[is_visible, 0].long())
        owners.append(torch.full((int(is_visible.sum()),), image))
    return Batch(x.clamp(0, 1), torch.cat(owners), torch.cat(classes), torch.cat(corners))


def batches(examples: Sequence[Composition]) -> Iterator[Batch]:
    """Yield augmented batches endlessly."""
    images = torch.from_numpy(np.stack([example.image for example in examples]))
    boxes = [torch.from_numpy(example.boxes) for example in examples]
    while True:
        order = torch.randperm(len(images))
        for start in range(0, len(order) - BATCH + 1, BATCH):
            indices = order[start : start + BATCH]
            yield augment(images[indices, None].float() / 255, [boxes[int(index)] for index in indices])


def overlap(first: torch.Tensor, second: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the IoU and the generalized IoU of corners [..., 4] with corners [..., 4]."""
    low, high = torch.maximum(first[..., :2], second[..., :2]), torch.minimum(first[..., 2:], second[..., 2:])
    shared = (high - low).clamp(min=0).prod(-1)

    def area(box: torch.Tensor) -> torch.Tensor:
        return (box[..., 2:] - box[..., :2]).clamp(min=0).prod(-1)

    union = area(first) + area(second) - shared + 1e-6
    hull_low, hull_high = torch.minimum(first[..., :2], second[..., :2]), torch.maximum(first[..., 2:], second[..., 2:])
    hull = (hull_high - hull_low).clamp(min=0).prod(-1) + 1e-6
    iou = shared / union
    return iou, iou - (hull - union) / hull


def loss_of(answers: torch.Tensor, batch: Batch, model: Detector) -> torch.Tensor:
    """Return the loss of predictions [N, 14, cells]: the loss of the boxes of cells near a digit, plus the loss of the
    scores of all cells."""
    boxes, logits = model.decode(answers), answers[:, 4:].transpose(1, 2)
    targets = torch.zeros_like(logits)
    count = max(1, len(batch.boxes))
    box_loss = logits.sum() * 0
    if len(batch.boxes):
        middle = (batch.boxes[:, :2] + batch.boxes[:, 2:]) / 2  # [n, 2]
        longer = (batch.boxes[:, 2:] - batch.boxes[:, :2]).amax(1)
        away = (model.grid.T[None] - middle[:, None]).abs().amax(2) / model.step  # [n, cells], in cells
        is_fine = model.step == STRIDES[0]
        responsible = torch.where(is_fine, longer[:, None] < SPLIT * OVERLAP, longer[:, None] > SPLIT / OVERLAP)
        near = responsible & (away < 1.0)
        digit, cell = near.nonzero(as_tuple=True)
        of_cells = boxes[batch.owners[digit], cell]
        wanted = batch.boxes[digit]
        iou, generalized = overlap(of_cells, wanted)
        sides = (wanted[:, 2:] - wanted[:, :2]).amax(1, keepdim=True)
        box_loss = ((1 - generalized) + 0.5 * ((of_cells - wanted).abs() / sides).sum(1)).sum() / count
        with torch.no_grad():
            scores = logits[batch.owners[digit], cell, batch.classes[digit]].sigmoid()
            fit = iou.clamp(min=0.02)
            merit = torch.full(near.shape, -1.0)
            merit[digit, cell] = scores.sqrt() * fit**3 + 1e-3 * (2 - away[digit, cell]) * fit
            best = merit.argmax(1)  # [n]
            quality = torch.zeros(near.shape)
            quality[digit, cell] = iou
            value = quality[torch.arange(len(best)), best].clamp(min=0.3)
            targets[batch.owners, best, batch.classes] = torch.maximum(
                targets[batch.owners, best, batch.classes], value
            )
    probabilities = logits.detach().sigmoid()
    weight = torch.where(targets > 0, targets, 0.75 * probabilities**2)
    score_loss = (F.binary_cross_entropy_with_logits(logits, targets, reduction="none") * weight).sum() / count
    return 2 * box_loss / 9 + score_loss  # at most nine cells are trained on a digit


def train(examples: Sequence[Composition], steps: int, seed: int) -> Detector:
    """Train on compositions and return the running average of the weights."""
    seed_everything(seed)
    model = Detector().to(memory_format=torch.channels_last)  # type: ignore[call-overload, unused-ignore]
    average = copy.deepcopy(model).eval()
    optimizer = torch.optim.AdamW(model.parameters(), LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, steps, pct_start=0.15)
    source = batches(examples)
    started = time.monotonic()
    for step in range(1, steps + 1):
        batch = next(source)
        with torch.autocast("cpu", torch.bfloat16):
            answers = model(batch.images.contiguous(memory_format=torch.channels_last))
        loss = loss_of(answers, batch, model)
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            for mean, new in zip(average.state_dict().values(), model.state_dict().values(), strict=True):
                if mean.is_floating_point():
                    mean.lerp_(new, 1 - min(AVERAGE_DECAY, step / (step + 10)))
        if step % 250 == 0 or step == steps:
            print(f"step {step} of {steps}, loss {loss.item():.3f}, {time.monotonic() - started:.0f} s", flush=True)
    return average

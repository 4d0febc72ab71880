"""Code that the training scripts share: networks as PyTorch modules, distortion of batches, the training loop, and
files.

Settings are chosen on forms 9 to 11 of the training digits, with the network trained on forms 1 to 8 (`--validate`);
the held-out forms and fonts are not used. A single thread is used so that sums are computed in a fixed order. Other
processors may still round differently, so repeating the training on another machine yields the same accuracy but not
the same bits.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from ...models.layers import Conv2d, Dense, Flatten
from ...models.network import Network

Batch = tuple[torch.Tensor, torch.Tensor]

SMOOTHING = 0.05
AVERAGE_DECAY = 0.998


class Distortion(NamedTuple):
    """The largest distortion of a batch of images. Lengths are relative to half the side of an image."""

    rotation: float = 0.25  # radians
    scale: float = 0.15
    shear: float = 0.25
    shift_x: float = 0.15
    shift_y: float = 0.12
    bend: float = 0.05  # standard deviation of the elastic displacement at 5x5 points


def module_for(network: Network, dropout: float, normalize: bool = False) -> nn.Sequential:
    """Return the network as a PyTorch module that computes logits, with dropout before each dense layer except at the
    input.

    If `normalize`, each convolution except the first, which has the most outputs, is followed by batch normalization
    during training; `tensors_of` folds the normalization into the convolution.
    """
    modules: list[nn.Module] = []
    for number, layer in enumerate(network.layers):
        activation = getattr(layer, "activation", "identity")
        if activation not in ("identity", "relu"):
            raise ValueError(f"layer {layer.name!r}: the training scripts support only relu, not {activation}")
        if isinstance(layer, Conv2d):
            modules += _convolution(layer, normalize and number > 0)
        elif isinstance(layer, Dense):
            modules += [nn.Dropout(dropout)] if number else []
            modules.append(nn.Linear(layer.in_features, layer.out_features))
        elif isinstance(layer, Flatten):
            modules.append(nn.Flatten())
        if activation == "relu":
            modules.append(nn.ReLU())
    return nn.Sequential(*modules)


def _convolution(layer: Conv2d, normalize: bool) -> list[nn.Module]:
    """Return the modules of a convolution before its activation."""
    modules: list[nn.Module] = [
        nn.Conv2d(layer.in_channels, layer.out_channels, layer.kernel_size, padding=layer.padding[:2])
    ]
    if normalize:
        modules.append(nn.BatchNorm2d(layer.out_channels))
    # The maximum of ReLUs equals the ReLU of the maximum, which takes a quarter of the work.
    if layer.pool_size > 1:
        modules.append(nn.MaxPool2d(layer.pool_size))
    return modules


def tensors_of(network: Network, module: nn.Sequential) -> dict[str, np.ndarray]:
    """Return the module's weights as float32, with the network's names and layouts."""
    parts = [part for part in module if isinstance(part, (nn.Conv2d, nn.Linear))]
    following = dict(zip(module, [*module][1:]))
    layers = [layer for layer in network.layers if isinstance(layer, (Conv2d, Dense))]
    tensors = {}
    for layer, part in zip(layers, parts, strict=True):
        bias = part.bias
        assert bias is not None
        weight, shift = part.weight.detach(), bias.detach()
        norm = following.get(part)
        if isinstance(norm, nn.BatchNorm2d):
            weight, shift = _folded(weight, shift, norm)
        tensors[f"{layer.name}.weight"] = (weight.T if isinstance(layer, Dense) else weight).numpy().astype(np.float32)
        tensors[f"{layer.name}.bias"] = shift.numpy().astype(np.float32)
    return tensors


def _folded(weight: torch.Tensor, bias: torch.Tensor, norm: nn.BatchNorm2d) -> tuple[torch.Tensor, torch.Tensor]:
    """Fold a normalization with fixed statistics into the weight and bias of the convolution that precedes it."""
    mean, variance = norm.running_mean, norm.running_var
    assert mean is not None and variance is not None
    scale = norm.weight.detach() / torch.sqrt(variance + norm.eps)
    return weight * scale.reshape(-1, 1, 1, 1), (bias - mean) * scale + norm.bias.detach()


def distort(images: torch.Tensor, limits: Distortion) -> torch.Tensor:
    """Randomly rotate, scale, shear, shift and bend each image of [N, 1, H, W]."""
    n = len(images)

    def uniform(limit: float) -> torch.Tensor:
        return (torch.rand(n) * 2 - 1) * limit

    angle, shear = uniform(limits.rotation), uniform(limits.shear)
    scale_x, scale_y = 1 + uniform(limits.scale), 1 + uniform(limits.scale)
    cos, sin = angle.cos(), angle.sin()
    rows = (
        torch.stack([scale_x * cos, scale_x * (shear * cos - sin), uniform(limits.shift_x)], 1),
        torch.stack([scale_y * sin, scale_y * (shear * sin + cos), uniform(limits.shift_y)], 1),
    )
    grid = F.affine_grid(torch.stack(rows, 1), list(images.shape), align_corners=False)
    coarse = torch.randn(n, 2, 5, 5) * limits.bend
    bend = F.interpolate(coarse, size=images.shape[2:], mode="bicubic", align_corners=False)
    moved: torch.Tensor = F.grid_sample(images, grid + bend.permute(0, 2, 3, 1), align_corners=False)
    return moved


class Checkpoint(NamedTuple):
    """The path and interval of checkpoints.

    With them, interrupting a long training loses little time and does not change the result.
    """

    path: Path
    every: int  # steps
    watch: Callable[[nn.Sequential], None]  # called with the running average at each checkpoint


class _Stateful(Protocol):
    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> object: ...


class Run:
    """The state of a training: the module, its running average, the optimizer, and the schedule."""

    def __init__(self, *parts: _Stateful) -> None:
        self._parts = parts

    def keep(self, path: Path, step: int) -> None:
        """Write the state, including random number generators, atomically."""
        partial = path.with_suffix(".partial")
        torch.save([step, torch.get_rng_state(), *(part.state_dict() for part in self._parts)], partial)
        partial.replace(path)

    def restore(self, path: Path) -> int:
        """Resume from a file, and return the number of steps done."""
        step, numbers, *states = torch.load(path, weights_only=True)
        torch.set_rng_state(numbers)
        for part, state in zip(self._parts, states, strict=True):
            part.load_state_dict(state)
        return int(step)


def train(
    module: nn.Sequential,
    batches: Callable[[], Iterator[Batch]],
    steps: int,
    learning_rate: float,
    weight_decay: float,
    bfloat16: bool = False,
    smoothing: float = SMOOTHING,
    average_decay: float = AVERAGE_DECAY,
    checkpoint: Checkpoint | None = None,
    rising: float = 0.3,
) -> nn.Sequential:
    """Train for a fixed number of steps (AdamW, one cycle) and return the running average of the weights.

    The learning rate rises for a fraction `rising` of the steps, then falls. If `bfloat16`, convolutions and products
    are computed in bfloat16, which takes half the time; the weights stay in float32.
    """
    if bfloat16:
        module = module.to(memory_format=torch.channels_last)  # type: ignore[call-overload, unused-ignore]
    optimizer = torch.optim.AdamW(module.parameters(), learning_rate, weight_decay=weight_decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, learning_rate, steps, pct_start=rising)
    average = copy.deepcopy(module).eval()
    run = Run(module, average, optimizer, schedule)
    first = run.restore(checkpoint.path) if checkpoint and checkpoint.path.is_file() else 0
    started = time.monotonic()
    source = batches()
    for step in range(first + 1, steps + 1):
        x, y = next(source)
        with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
            loss = F.cross_entropy(module(x).float(), y, label_smoothing=smoothing)
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        schedule.step()
        _average(average, module, min(average_decay, step / (step + 10)))
        if step % 1000 == 0 or step == steps:
            print(f"step {step} of {steps}, loss {loss.item():.3f}, {time.monotonic() - started:.0f} s", flush=True)
        if checkpoint and (step % checkpoint.every == 0 or step == steps):
            run.keep(checkpoint.path, step)
            checkpoint.watch(average)
    return average


@torch.no_grad()
def _average(average: nn.Sequential, module: nn.Sequential, decay: float) -> None:
    """Update the running average, including the statistics of normalizations."""
    for mean, new in zip(average.state_dict().values(), module.state_dict().values(), strict=True):
        if mean.is_floating_point():
            mean.lerp_(new, 1 - decay)


def seed_everything(seed: int) -> None:
    """Seed PyTorch's random numbers, and make the order of its sums deterministic."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)

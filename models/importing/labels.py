"""Names of classes that many networks share."""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).resolve().parent


def imagenet_labels() -> tuple[str, ...]:
    """The 1,000 classes of ImageNet's challenge, in the order in which torchvision's networks give them."""
    return tuple((_FOLDER / "imagenet_labels.txt").read_text("utf-8").split("\n")[:1000])

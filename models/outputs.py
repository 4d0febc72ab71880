"""The output of a network: the meaning of its numbers."""

from __future__ import annotations

from dataclasses import dataclass

from .checks import check_choice

OUTPUT_KINDS = ("classes", "sigmoid", "values")
CLASS_SCORES = ("raw", "softmax", "log_softmax")


@dataclass(frozen=True)
class Output:
    """The meaning of the last layer's numbers.

    "classes": one of several; `scores` is "raw", "softmax" for probabilities or "log_softmax" for their logarithms.
    "sigmoid": independent probabilities, one for each label, or a single one. "values": the numbers themselves, such
    as those of a regression or an embedding.

    Of classes, `none` may name the label for inputs that belong to none of the others.
    """

    kind: str = "classes"
    scores: str = ""
    none: str = ""

    def __post_init__(self) -> None:
        check_choice("output", "kind", self.kind, OUTPUT_KINDS)
        check_choice("output", "scores", self.scores, CLASS_SCORES if self.kind == "classes" else ("",))

"""The sets of pictures on which `digits-cnn` is trained and scored, cached in a folder, and their scores."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from .calibration import Bin, calibration_error, reliability, softmax
from .render_digits import HELD_OUT_PICTURES, Rendering, plain_handwriting, render_fonts, render_handwriting
from .render_glyphs import COUNTS as GLYPHS
from .render_glyphs import render_glyphs
from .render_nondigits import GROUPS, NONE, SIGN_GROUPS, render_nondigits
from .scoring import Answers, Score
from .uci import load_split

HANDWRITING_PICTURES = 6000
FONT_PICTURES = 9000
SMALL_PICTURES = 1500
VALIDATION_PICTURES = 3000
SCORED_ON_DIGITS = "UCI digits enlarged, held-out forms"
SCORED_ON_FONTS = "distorted renderings, held-out fonts"
SCORED_ON_SIGNS = "non-digits refused, held-out scripts and pictograms"


class Sets:
    """The sets of rendered pictures, keyed by name and cached in a folder if one is given."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def get(self, name: str, make: Callable[[], Rendering]) -> Rendering:
        """Return a set from the cache, or create and cache it."""
        if self._folder is None:
            return make()
        path = self._folder / f"{name.replace(' ', '_')}.npz"
        if not path.is_file():
            self._folder.mkdir(parents=True, exist_ok=True)
            partial = path.with_suffix(".partial")
            with partial.open("wb") as file:
                np.savez(file, **make()._asdict())
            partial.replace(path)
        with np.load(path) as archive:
            return Rendering(archive["images"], archive["labels"], archive["numbers"], int(archive["refused"]))

    def nondigits(self, side: str) -> dict[str, Rendering]:
        """Return the pictures without a digit, keyed by group."""
        return {
            group: self.get(f"{side} {group}", lambda group=group: render_nondigits(side, group))  # type: ignore[misc]
            for group in GROUPS
        }


def joined(renderings: list[Rendering]) -> Rendering:
    """Concatenate several renderings."""
    images, labels, numbers = (np.concatenate([rendering[part] for rendering in renderings]) for part in range(3))
    return Rendering(images, labels, numbers, sum(rendering.refused for rendering in renderings))


def _fonts(sets: Sets, stream: str, count: int) -> Rendering:
    return sets.get(stream, lambda: render_fonts(stream, count))


def glyph_sets(sets: Sets) -> dict[str, Rendering]:
    """Return the sets of the first training stage: plain handwriting, and glyphs of each kind."""
    return {
        "plain handwriting": plain_handwriting(*load_split()[0]),
        **{
            f"glyphs, {kind}": sets.get(f"glyphs {kind}", lambda kind=kind: render_glyphs(kind))  # type: ignore[misc]
            for kind in GLYPHS
        },
    }


def picture_sets(sets: Sets) -> dict[str, Rendering]:
    """Return the additional training sets: pictures of handwriting, of digits in fonts, of small digits in fonts, and
    of non-digits."""
    return {
        "handwriting": sets.get("training handwriting", lambda: render_handwriting(HANDWRITING_PICTURES)),
        "fonts": _fonts(sets, "training fonts", FONT_PICTURES),
        "small fonts": _fonts(sets, "small training fonts", SMALL_PICTURES),
        "no digits": joined(list(sets.nondigits("training").values())),
    }


def validation_sets(sets: Sets) -> dict[str, Rendering]:
    """Return the sets for choosing settings and fitting the temperature: digits in fonts, and each group of pictures
    without a digit."""
    return {"fonts": _fonts(sets, "validation fonts", VALIDATION_PICTURES), **sets.nondigits("validation")}


def held_out_sets(sets: Sets) -> dict[str, Rendering]:
    """Return all held-out sets: handwriting, digits in fonts, and each group of non-digits."""
    held_out = load_split()[1]
    return {
        SCORED_ON_DIGITS: plain_handwriting(*held_out),
        SCORED_ON_FONTS: _fonts(sets, "held-out fonts", HELD_OUT_PICTURES),
        **sets.nondigits("held-out"),
    }


def held_out_scores(answers: dict[str, Answers]) -> tuple[list[Score], list[Score], list[Bin]]:
    """Return the scores of predictions for `held_out_sets`, the scores of their parts, and the reliability of all
    predictions."""
    digits = [answers[SCORED_ON_DIGITS], answers[SCORED_ON_FONTS]]
    signs = [answers[group] for group in SIGN_GROUPS]
    scores: list[Score] = [
        (SCORED_ON_DIGITS, digits[0].count_correct(), digits[0].total),
        (SCORED_ON_FONTS, digits[1].count_correct(), digits[1].total),
        (SCORED_ON_SIGNS, sum(score.count_none(NONE) for score in signs), sum(score.total for score in signs)),
    ]
    wrongly = sum(score.count_none(NONE) for score in digits), sum(score.total for score in digits)
    parts: list[Score] = [("digits wrongly refused", *wrongly)]
    parts += [(f"{group} refused", answers[group].count_none(NONE), answers[group].total) for group in GROUPS]
    logits = np.concatenate([score.logits for score in answers.values()])
    labels = np.concatenate([score.labels for score in answers.values()])
    return scores, parts, reliability(softmax(logits), labels)


def print_parts(parts: list[Score], bins: list[Bin]) -> float:
    """Print the refusals and the expected calibration error, and return the error."""
    for on, count, total in parts:
        print(f"{on}: {count} of {total}, {100 * count / total:.2f} %")
    error = calibration_error(bins)
    print(f"expected calibration error {error:.4f}")
    return error

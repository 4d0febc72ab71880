"""Score the bundled models on what was held out, and write the held-out sets as files for other programs to score.

- `python -m trninfer.tools.evaluate` scores both models with the golden NumPy model.
- `python -m trninfer.tools.evaluate --write-heldout DIRECTORY` writes DIRECTORY/digits/*.png (UCI digits enlarged),
  DIRECTORY/fonts/*.png (distorted renderings) and digits-X.bin with digits-Y.bin (features and labels). A picture's
  name begins with its digit.
- `python -m trninfer.tools.evaluate --score ANSWERS.json` scores what `trninfer classify --format json` answered for
  such pictures, by their names; a picture without an answer counts as wrong.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from ..models.files import load_model
from .digits import as_picture, load_split
from .fonts import HELD_OUT_FAMILIES, find_fonts
from .render_digits import HELD_OUT_PICTURES, font_picture, plain_handwriting, render_fonts
from .scoring import accuracy_metadata, count_correct


def score_golden() -> None:
    """Print the accuracy of both models by the golden model."""
    features, labels = load_split()[1]
    ffnn, cnn = load_model("digits-ffnn"), load_model("digits-cnn")
    fonts = render_fonts("held-out fonts", HELD_OUT_PICTURES)
    accuracy_metadata(
        [
            ("digits-ffnn, UCI digits", count_correct(ffnn.network, ffnn.tensors, features, labels), len(labels)),
            (
                "digits-cnn, UCI digits enlarged",
                count_correct(cnn.network, cnn.tensors, plain_handwriting(features), labels),
                len(labels),
            ),
            (
                "digits-cnn, distorted renderings",
                count_correct(cnn.network, cnn.tensors, fonts.images, fonts.labels),
                HELD_OUT_PICTURES,
            ),
        ]
    )


def write_heldout(directory: Path) -> None:
    """Write the held-out sets as pictures and as a feature batch."""
    held_out = load_split()[1]
    for name in ("digits", "fonts"):
        (directory / name).mkdir(parents=True, exist_ok=True)
    for number, (features, label) in enumerate(zip(*held_out, strict=True)):
        as_picture(features).save(directory / "digits" / f"{label}-{number:04}.png")
    fonts = find_fonts(HELD_OUT_FAMILIES)
    for number in range(HELD_OUT_PICTURES):
        picture, digit = font_picture("held-out fonts", number, fonts)
        picture.save(directory / "fonts" / f"{digit}-{number:04}.png")
    held_out.features.astype("<f4").tofile(directory / "digits-X.bin")
    held_out.labels.astype("<i4").tofile(directory / "digits-Y.bin")


def score_answers(path: Path) -> None:
    """Print the accuracy of the answers in a JSON report of `trninfer classify`, names telling the truth."""
    report = json.loads(path.read_text())
    answers = [(Path(each["input"]).name[0], each["label"]) for each in report["predictions"]]
    correct = sum(truth == label for truth, label in answers)
    accuracy_metadata([(str(path), correct, len(answers) + len(report["errors"]))])


def main() -> None:
    """Score with the golden model, or what the options say."""
    parser = argparse.ArgumentParser(description="Score the bundled models on held-out data.")
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--write-heldout", type=Path, metavar="DIRECTORY", help="write the held-out sets as files")
    choice.add_argument("--score", type=Path, metavar="ANSWERS", help="score a JSON report of trninfer classify")
    options = parser.parse_args()
    if options.write_heldout:
        write_heldout(options.write_heldout)
    elif options.score:
        score_answers(options.score)
    else:
        score_golden()


if __name__ == "__main__":
    main()

"""Score the bundled models on held-out data, or write the held-out sets as files for other programs to score.

- `python -m trninfer.tools.digits.evaluate` scores both models with the golden NumPy model.
- `python -m trninfer.tools.digits.evaluate --dtype float8_e4m3` scores `digits-cnn` with the kernels in a dtype, on
  the simulator, and compares the result with the golden model.
- `python -m trninfer.tools.digits.evaluate --write-heldout DIRECTORY` writes DIRECTORY/digits/*.png (enlarged UCI
  digits), DIRECTORY/fonts/*.png (distorted renderings), DIRECTORY/none/*.png (scripts and pictograms), digits-X.bin and
  digits-Y.bin (features and labels). The name of a picture begins with its label.
- `python -m trninfer.tools.digits.evaluate --score ANSWERS.json` scores the answers of `trninfer classify --format
  json` for these pictures, matched by name. A digit without an answer is wrong; a non-digit without an answer counts as
  refused.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from ...models.files import load_model
from ...runtime.backend import NETWORK_DTYPES
from .fonts import HELD_OUT_FAMILIES, find_fonts
from .render_digits import HELD_OUT_PICTURES, font_picture
from .render_nondigits import COUNTS, GROUPS, NONE_LABEL, SIGN_GROUPS, NonDigits
from .scoring import accuracy_metadata, answer, classes_by_kernels
from .sets import Sets, held_out_scores, held_out_sets, print_parts
from .uci import as_picture, load_split


def score_golden(cache: Path | None) -> None:
    """Print the golden model's accuracy for both models, and the refusals and calibration of `digits-cnn`."""
    features, labels = load_split()[1]
    ffnn, cnn = load_model("digits-ffnn"), load_model("digits-cnn")
    correct = answer(ffnn.network, ffnn.tensors, features, labels).count_correct()
    accuracy_metadata([("digits-ffnn, UCI digits", correct, len(labels))])
    answers = {
        name: answer(cnn.network, cnn.tensors, held_out.images, held_out.labels, held_out.refused)
        for name, held_out in held_out_sets(Sets(cache)).items()
    }
    scores, parts, bins = held_out_scores(answers)
    accuracy_metadata([(f"digits-cnn, {on}", correct, total) for on, correct, total in scores])
    print_parts(parts, bins)


def score_kernels(dtype: str, cache: Path | None) -> None:
    """Print the accuracy of `digits-cnn` with the kernels in a dtype, and with the golden model in float32."""
    cnn = load_model("digits-cnn")
    none = cnn.network.labels.index(NONE_LABEL)
    for name, held_out in held_out_sets(Sets(cache)).items():
        golden = answer(cnn.network, cnn.tensors, held_out.images, held_out.labels, held_out.refused)
        classes = classes_by_kernels(cnn.network, cnn.tensors, held_out.images, dtype)
        refused = held_out.refused * int((held_out.labels == none).all())  # a refused digit counts as wrong
        right = int((classes == held_out.labels).sum()) + refused
        expected = golden.count_correct() + refused
        share = 100 * (right - expected) / golden.total
        print(
            f"{name}: {right} of {golden.total} right in {dtype}, {expected} in float32 ({share:+.2f} points); "
            f"{int((classes != golden.classes).sum())} answers differ"
        )


def write_heldout(directory: Path) -> None:
    """Write the held-out sets as pictures and as a feature batch."""
    held_out = load_split()[1]
    for name in ("digits", "fonts", "none"):
        (directory / name).mkdir(parents=True, exist_ok=True)
    for number, (features, label) in enumerate(zip(*held_out, strict=True)):
        as_picture(features).save(directory / "digits" / f"{label}-{number:04}.png")
    fonts = find_fonts(HELD_OUT_FAMILIES)
    for number in range(HELD_OUT_PICTURES):
        picture, digit = font_picture("held-out fonts", number, fonts)
        picture.save(directory / "fonts" / f"{digit}-{number:04}.png")
    nondigits = NonDigits("held-out")
    for group in SIGN_GROUPS:
        for number in range(COUNTS["held-out"][list(GROUPS).index(group)]):
            nondigits.picture(group, number).save(directory / "none" / f"{NONE_LABEL}-{group}-{number:04}.png")
    held_out.features.astype("<f4").tofile(directory / "digits-X.bin")
    held_out.labels.astype("<i4").tofile(directory / "digits-Y.bin")


def score_answers(path: Path) -> None:
    """Print the accuracy of a JSON report of `trninfer classify`, with labels from file names."""
    report = json.loads(path.read_text())
    answers = [(_truth(prediction["input"]), prediction["label"]) for prediction in report["predictions"]]
    answers += [(_truth(prediction["input"]), NONE_LABEL) for prediction in report["errors"]]
    correct = sum(truth == label for truth, label in answers)
    accuracy_metadata([(str(path), correct, len(answers))])


def _truth(name: str) -> str:
    """Return the label of a picture, which is the beginning of its file name."""
    return Path(name).name.partition("-")[0]


def main() -> None:
    """Score with the golden model, or as the options specify."""
    parser = argparse.ArgumentParser(description="Score the bundled models on held-out data.")
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--write-heldout", type=Path, metavar="DIRECTORY", help="write the held-out sets as files")
    choice.add_argument("--score", type=Path, metavar="ANSWERS", help="score a JSON report of trninfer classify")
    choice.add_argument("--dtype", choices=[*NETWORK_DTYPES], help="score digits-cnn through the kernels")
    parser.add_argument("--cache", type=Path, metavar="DIRECTORY", help="folder for storing the rendered pictures")
    options = parser.parse_args()
    if options.write_heldout:
        write_heldout(options.write_heldout)
    elif options.score:
        score_answers(options.score)
    elif options.dtype:
        score_kernels(options.dtype, options.cache)
    else:
        score_golden(options.cache)


if __name__ == "__main__":
    main()

"""`trninfer classify`: predict labels for pictures."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from .errors import UsageError
from .option_groups import takes_options
from .options import ModelOption, PictureOptions
from .picture_paths import PicturePaths

if TYPE_CHECKING:
    from ..inference.predictions import Prediction
    from ..inference.search import InputProblem
    from ..models.files import Model
    from .answering import Inputs, RightClass

HELP = """Classify pictures, and time each layer.

The default model, digits-cnn, recognises one printed or handwritten digit in an ordinary picture. Pictures without a
digit are labelled none (--top-k also lists the most probable digit). A picture with several digits is an error; use
trninfer detect instead.

Pictures are BMP, GIF, JPEG, PNG, PNM, TIFF and WebP files of at most 64 megapixels, and AVIF files if Pillow supports
them. Files in folders and globs are sorted by name, and hidden files are skipped; in folders, only files with a picture
suffix are read. A picture that is named several times is classified once. Pictures are decoded batch by batch, so their
number is not limited by memory.

.npy and .npz files are read if they are named explicitly. They contain one array [C, H, W] or a batch [N, C, H, W] that
is already preprocessed for the network (or [H, W, C] if the network was trained with that layout, or if --layout HWC is
given). The inputs of a batch are named FILE[0], FILE[1] and so on.

If a picture cannot be read, its name and the reason are printed to standard error, the remaining pictures are still
classified, and the exit status is 2 (unless --max-errors permits that many failures). If the network outputs values (a
regression or an embedding), the answers contain values instead of a label and a probability. If it has several outputs,
json and ndjson contain all of them by name; csv contains only the first.

With --labels, the answers are scored: accuracy, top-5 accuracy, precision, recall and F1 of each class, and a confusion
matrix. Pictures without a label are classified but not scored.

If a network has several inputs, PATH provides one of them; --input NAME=FILE provides each of the others, with the same
value for all pictures.

\b
Formats:
  table   for people: label and probability (the --top-k if given), layers
  csv     input,label,class_index,probability,error: one line per answer, then one
          per input that could not be used, with the reason as error
  ndjson  one object per line, distinguished by "type": prediction, layer, error,
          and a summary at the end
  json    one document; its schema is app/reports/report.schema.json in the package
  parquet the columns of csv, for --output FILE; needs pyarrow

In the csv and ndjson formats, answers are written to standard output as they are computed. With --output, answers are
collected in FILE.partial, and FILE is written at the end of the run. If the run is interrupted (by Ctrl-C or a full
disk, for example), FILE.partial is kept, and the same command with --resume continues. Earlier answers come first in
FILE. Inputs with an error are tried again, and so are pictures whose size or modification time has changed;
--resume-check hash compares the contents of files instead, and --resume-check name only their names. --model, --top-k,
--dtype, --backend and --target must not change. A finished csv or ndjson FILE can also be extended; pictures that have
changed since it was written are reported but not classified again.

On a chip, times are measured: the median and 99th percentile of --iters calls, including the transfer from and to the
host. --device-times adds the time on the device alone. --cores distributes batches over processes on this machine.
--cluster distributes them over the workers of a Ray cluster, which read the pictures from the same paths (or receive
their contents with --ship). Layer times are then sums over all workers, and the total time of the busiest worker is
also reported. --compare-backends runs each launch on the chip and on the simulator; with --format csv, it writes the
measurements instead of the answers.

\b
Examples:
  trninfer classify photo.jpg
  trninfer classify samples/ --format json --output answers.json
  trninfer classify photos/ --recursive --format csv --output all.csv --resume
  find . -name '*.png' | trninfer classify --from-list - --format ndjson
  cat photo.jpg | trninfer classify - --top-k 3
  trninfer classify val/ --recursive --labels val/ --fail-under 0.97
  trninfer classify faces/ --model siamese.safetensors --input reference=me.png
  trninfer classify photos/ --backend neuron --cores 4
  trninfer classify /shared/photos/ --cluster auto --output all.csv --format csv
  trninfer classify samples/ --compare-backends --format csv --output trn2.csv
"""


@dataclass(frozen=True)
class Pictures(PicturePaths):
    """The pictures of a run and their correct labels."""

    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            metavar="NAME=FILE",
            help="File for one of the network's inputs (a picture, an array or features), or numbers such as 0.5. The "
            "other input is read from PATH.",
        ),
    ] = None
    labels: Annotated[
        str | None,
        typer.Option(
            "--labels",
            metavar="SOURCE",
            help="Correct labels, for scoring the answers: a folder with one subfolder per label, a .csv, .tsv or "
            ".json file of names and labels, or a filename pattern such as '{label}-*.png'.",
        ),
    ] = None

    def check(self, resume: bool) -> None:
        """Raise UsageError if no picture is specified, or if --resume is used with standard input."""
        self.check_named(resume, "classify", others=bool(self.inputs))


@takes_options(HELP)
def classify(pictures: Pictures, model: ModelOption = "digits-cnn", *, options: PictureOptions) -> None:
    """Classify the specified pictures."""
    started = time.perf_counter()
    options.check()
    pictures.check(options.resume)

    from ..inference.arguments import in_layout
    from ..inference.pictures import ignore_warnings
    from .answering import answer_inputs, begin
    from .backends import load

    run = begin(options, started)  # reports a missing backend before any input is read
    names, problems = pictures.find()
    options.check_kept(model, pictures.from_list, pictures.labels, *names)
    loaded = load(model, options.quiet)
    if loaded.network.output.boxes is not None:
        raise UsageError(f"model {loaded.network.name!r} predicts boxes, not classes; use trninfer detect")
    if loaded.network.output.kind == "map":
        raise UsageError(f"model {loaded.network.name!r} predicts a class for each pixel; use trninfer segment")
    loaded = loaded if options.layout is None else in_layout(loaded, options.layout)
    ignore_warnings()
    right_class = _right_class(pictures.labels, loaded, names)
    opened = _open_inputs(loaded, pictures.inputs or [], names, problems, options)
    raise typer.Exit(answer_inputs(run, loaded, opened, right_class))


def _right_class(source: str | None, model: Model, names: list[str]) -> RightClass | None:
    """Return a function that maps a prediction to its correct class, or None if there are no labels."""
    if source is None:
        return None
    from ..inference.picture_labels import PictureLabels
    from ..inference.predictions import InputNames

    labels = PictureLabels(source, model.network.answer_labels)
    labels.check_some(names)

    def right_class(answer: Prediction) -> int | None:
        sources = answer.input.sources.values() if isinstance(answer.input, InputNames) else [str(answer.input)]
        return next((label for name in sources if (label := labels.class_of(name)) is not None), None)

    return right_class


def _open_inputs(
    model: Model, given: list[str], names: list[str], problems: list[InputProblem], options: PictureOptions
) -> Inputs:
    """Open the pictures and the --input files. Raises UsageError if the network needs other inputs."""
    from ..models.inputs import ImageInput, SeveralInputs
    from .picture_inputs import PictureInputs

    spec = model.network.input
    if given or isinstance(spec, SeveralInputs):
        from ..inference.several import read_given
        from .several_inputs import open_several, parse_inputs

        sources = parse_inputs(given)
        if isinstance(spec, SeveralInputs):
            return open_several(spec, read_given(spec, sources, options.picture_timeout), names, problems, options)
        raise UsageError(
            f"--input requires a model with several inputs; pass the files of model {model.network.name!r}, which has "
            "one, as PATH"
        )
    if not isinstance(spec, ImageInput):
        raise UsageError(f"model {model.network.name!r} reads features, not pictures; use trninfer ffnn")
    return PictureInputs(names, problems, spec, options)

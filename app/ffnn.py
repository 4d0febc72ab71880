"""`trninfer ffnn`: classify batches of features."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .completion import complete_model
from .errors import UsageError, complain
from .option_groups import takes_options
from .options import Header, RowOptions

if TYPE_CHECKING:
    import numpy as np

    from ..inference.columns import Columns
    from ..inference.feature_rows import FeatureRows
    from ..models.files import Model

BUNDLED = "digits-ffnn"


HELP = """Classify rows of features, and time each layer.

\b
Features (--data), one row per input, all finite:
  .bin  raw little-endian float32, row by row; the network
        determines the length of a row
  .npy  one array of real numbers [rows, features]; nothing is unpickled
  .npz  the same; one array, or the one named x
  .csv  one row per line, numbers separated by commas (.tsv: tabs), perhaps below
        a header
  .parquet  columns of numbers; needs pyarrow
  -     standard input: a .csv, or another of these, recognised by its first bytes

In .csv, .tsv and .parquet files, not all columns have to be features: --id names the column that identifies rows,
--label-column the column with the correct classes, --drop columns to omit, and --columns the features, in order.
Columns are named as in the header; without a header, they are numbered from 0. If exactly one column contains text, it
is used as the id, and a note says so.

The first line of a .csv file is treated as a header if none of its cells is a number or missing, or if the cells are 0,
1, 2, ..., as written by pandas. If a header is detected, a note says so; --header yes or --header no overrides the
detection. Lines before the first row that begin with # are comments. A missing value (empty or NA) is an error.

Rows are read batch by batch, so a file may be larger than memory, and the first answers appear immediately. A row with
NaN, infinity or numbers beyond the range of float32 is reported as an error, the remaining rows are still classified,
and the exit status is 2. The run stops if more than 1000 rows cannot be used.

With --labels, the answers are scored. The file of labels is .bin (raw int32), .npy, .json (a list), .csv or .txt (one
per line); in text files, each entry is one of the labels of the network or its number.

--weights reads a network with one hidden layer (relu) and a softmax from W1.bin [features, hidden], b1.bin [hidden],
W2.bin [hidden, classes] and b2.bin [classes], all raw little-endian float32. All dimensions are inferred from the file
sizes.

\b
Formats:
  table   for people: the first rows, the score with --labels, the layers
  csv     input,label,class_index,probability,error: one line per row, whose id
          or number from 0 is its input, then one per row that could not be used
  ndjson  one object per line, distinguished by "type": prediction, layer, error,
          and a summary at the end
  json    one document; its schema is app/reports/report.schema.json in the package
  parquet the columns of csv, for --output FILE; needs pyarrow

In the csv and ndjson formats, answers are written to standard output as they are computed. With --output, answers are
collected in FILE.partial, and FILE is written at the end of the run. If the run is interrupted (by Ctrl-C or a full
disk, for example), FILE.partial is kept, and the same command with --resume continues with the remaining rows. --data,
the network, --top-k, --dtype, --backend and --target must not change.

On a chip, times are measured; see trninfer classify --help for --iters, --device-times, --cores, --cluster and
--compare-backends.

\b
Examples:
  trninfer ffnn --data samples/digits-X.bin --labels samples/digits-Y.bin --verify
  trninfer ffnn --data X.bin --weights lab/ --format csv --output classes.csv
  trninfer ffnn --data big.npy --format ndjson --top-k 1 | head
  trninfer ffnn --data table.csv --model table.onnx --id name --label-column class
  trninfer ffnn --data X.bin --backend neuron --cores 2 --batch-size 512
"""


@dataclass(frozen=True)
class RowData:
    """The rows of a run, the network, and the correct classes."""

    data: Annotated[
        Path,
        typer.Option(
            "--data",
            metavar="FILE",
            help="File with rows of features: .bin (raw float32), .npy, .npz, .csv, .tsv or .parquet, or - for "
            "standard input.",
        ),
    ]
    header: Annotated[
        Header,
        typer.Option("--header", help="Whether the first line of a .csv or .tsv file is a header."),
    ] = "auto"
    weights: Annotated[
        Path | None,
        typer.Option(
            "--weights",
            metavar="DIR",
            help="Folder with W1.bin b1.bin W2.bin b2.bin; sizes are inferred from the files.",
        ),
    ] = None
    labels: Annotated[
        Path | None,
        typer.Option(
            "--labels",
            metavar="FILE",
            help="File with the correct classes, for scoring the answers: .bin (raw int32), .npy, .csv, .txt or .json.",
        ),
    ] = None
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            autocompletion=complete_model,
            help=f"Name of a bundled network, or a .safetensors or ONNX file; an alternative to --weights. [default: "
            f"{BUNDLED}]",
        ),
    ] = None
    columns: Annotated[
        str | None,
        typer.Option(
            "--columns", metavar="A,B,...", help="Columns of a table that are features, in order. [default: all others]"
        ),
    ] = None
    drop: Annotated[str | None, typer.Option("--drop", metavar="A,B,...", help="Columns of a table to omit.")] = None
    id_column: Annotated[
        str | None,
        typer.Option(
            "--id",
            metavar="COLUMN",
            help="Column of a table that identifies rows in the answers. [default: its only column of text]",
        ),
    ] = None
    label_column: Annotated[
        str | None,
        typer.Option(
            "--label-column", metavar="COLUMN", help="Column of a table with the correct classes, like --labels."
        ),
    ] = None

    def choose(self) -> Columns:
        """Return the selected columns. Raises UsageError if the selections contradict each other."""
        from ..inference.columns import Columns, parse_names

        if self.labels is not None and self.label_column is not None:
            raise UsageError("--labels and --label-column both specify the correct classes; use only one of them")
        try:
            features, drop = parse_names("--columns", self.columns), parse_names("--drop", self.drop)
        except ValueError as error:
            raise UsageError(str(error)) from None
        return Columns(features, drop, self.id_column, self.label_column)

    def open(self, features: int, columns: Columns) -> FeatureRows:
        """Open the rows. Raises InputError if a row does not consist of `features` numbers."""
        from ..inference.features import read_feature_bytes, read_features
        from .row_inputs import read_standard_input

        if str(self.data) != "-":
            return read_features(self.data, features, self.header, columns)
        return read_feature_bytes("standard input", read_standard_input(), features, self.header, columns)

    def read_truth(self, rows: FeatureRows, labels: tuple[str, ...]) -> np.ndarray | None:
        """Return the correct class of each row (-1 if it is unknown), or None if there are no labels."""
        from ..inference.labels import column_classes, read_labels

        if self.labels is not None:
            return read_labels(self.labels, len(rows), labels, self.header)
        if rows.sides is None or rows.sides.labels is None:
            return None
        return column_classes(rows.name, str(self.label_column), rows.sides.labels, labels)

    def load(self, quiet: bool) -> Model:
        """Load the network. Raises UsageError if it does not read rows."""
        from ..inference.features import read_weights
        from ..models.inputs import FeatureInput, SeveralInputs
        from .backends import load

        loaded = read_weights(self.weights) if self.weights is not None else load(self.model or BUNDLED, quiet)
        if isinstance(loaded.network.input, SeveralInputs):
            raise UsageError(f"model {self.model!r} reads several inputs; use trninfer classify --input NAME=FILE")
        if not isinstance(loaded.network.input, FeatureInput):
            raise UsageError(f"model {self.model!r} reads pictures, not features; use trninfer classify")
        return loaded


@takes_options(HELP)
def ffnn(given: RowData, *, options: RowOptions) -> None:
    """Classify the rows of a file."""
    started = time.perf_counter()
    options.check()
    raw = given.weights.glob("*.bin") if given.weights is not None else ()
    options.check_kept(given.data, given.labels, given.model, *raw)
    if given.weights is not None and given.model is not None:
        raise UsageError("--weights and --model both specify a network; use only one of them")

    from ..inference.feature_range import LOOKED_AT, range_note
    from .answering import answer_inputs, begin
    from .row_inputs import RowInputs

    columns = given.choose()
    run = begin(options, started)  # reports a missing backend before any input is read
    loaded = given.load(options.quiet)
    with given.open(loaded.network.input.shape[0], columns) as rows:
        truth = given.read_truth(rows, loaded.network.labels)
        for note in (*rows.notes, range_note(loaded, next(rows.batches(LOOKED_AT)))):
            if note is not None and not options.quiet:
                complain(f"{rows.name}: {note}")
        inputs = RowInputs(given.data, rows, given.header, columns)
        right_class = None if truth is None else partial(inputs.right_class, truth)
        status = answer_inputs(run, loaded, inputs, right_class)
    raise typer.Exit(status)

"""`trninfer.classify`, `trninfer.detect` and `trninfer.predict`, and asynchronous versions of two of them."""

from __future__ import annotations

import asyncio
import functools
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from ..inference.arguments import Layout, OnError, RunArguments
from ..inference.boxes import CONFIDENCE, IOU, MAX_DETECTIONS, check_limits
from ..inference.columns import Columns
from ..inference.csv_tables import Header, check_header
from ..inference.detections import Detector
from ..inference.feature_range import range_note
from ..inference.picture_labels import PictureLabels
from ..inference.predictions import MakePredictions, Prediction, make_predictions
from ..inference.python_inputs import Picture, PictureReader, Rows
from ..inference.python_rows import RowReader
from ..inference.running import PatientSession, run_batches
from ..inference.scoring import Scorer
from ..inference.search import InputProblem
from ..inference.stream import Batch
from ..models.errors import ArgumentError, InputError, ModelError
from ..models.files import Model
from ..models.inputs import FeatureInput
from ..runtime.launch_options import BackendName, Dtype, EightBitLayers, Per, Target
from ..runtime.session import BatchSession, Session
from .answers import Answers, Run

Value = TypeVar("Value")


def classify(
    inputs: Picture | Iterable[Picture],
    model: str | os.PathLike[str] | Model = "digits-cnn",
    *,
    dtype: Dtype = "float32",
    target: Target | None = None,
    backend: BackendName = "auto",
    batch_size: int = 16,
    top_k: int = 5,
    cores: int = 1,
    cluster: str | None = None,
    layout: Layout | None = None,
    on_error: OnError = "raise",
    lnc: int = 1,
    launches: Per = "network",
    eight_bits: EightBitLayers = "inner",
    calibrate: str | os.PathLike[str] | None = None,
    labels: str | os.PathLike[str] | None = None,
) -> Answers:
    """Compute predictions for pictures.

    `inputs` is a picture or an iterable of them, which is consumed lazily. A picture is:

    - the path of a file, of a folder or a glob, as on the command line;
    - the contents of a file (bytes), or a binary file object;
    - a PIL image;
    - an array of pixels, uint8 [H, W], [H, W, 3] or [H, W, 4], or of floating-point numbers in the form that the
      network reads; a NumPy array, or any object with `__array__` or `__dlpack__`, such as a PyTorch tensor. An array
      with an additional leading axis contains several pictures;
    - for a network with several inputs, a dict that contains a picture or numbers for each input, keyed by name.

    `layout` is "CHW" or "HWC", channels first or last, for arrays of both kinds. By default, arrays of numbers have the
    layout of the model file, and pixels have channels last. The `input` of a prediction is the path, or the picture's
    number, counted from 0; if the network has several outputs, `outputs` contains all of them.

    `model` is a bundled name, the path of a model file or of an ONNX file, or a loaded model. `dtype` is "float32",
    "bfloat16", "float16" or "float8_e4m3" (docs/eight-bits.md); `target` is "trn1", "trn2" or "trn3" (with the same
    default as on the command line), `backend` is "auto", "neuron" or "sim", and `top_k` is the maximum number of labels
    per prediction. If `cores` is greater than 1, or `cluster` is the address of a Ray cluster, the batches are
    distributed across worker processes (see docs/cluster.md; Ray requires the `cluster` extra). If `lnc` is 2, a launch
    runs on two NeuronCores as one logical core (see docs/two-cores.md; not supported on trn1). `launches` is "network"
    for as few launches as possible, or "layer". In float8_e4m3, `eight_bits` selects the layers that may use 8 bits,
    "inner" or "all", and `calibrate` is a folder of pictures from which the scales are determined.

    If `labels` is given, the predictions are scored (`score` of the result). It is a folder with a subfolder for each
    label, a .csv, .tsv or .json file with names and labels, or a filename pattern such as "{label}-*.png".

    If `on_error` is "raise", an InputError is raised for the first picture that cannot be used. If it is "collect",
    such pictures are listed in `errors` of the result, and the others are processed. Also raises ArgumentError,
    ModelError, TargetError, BackendUnavailable or KernelError, all of which are subclasses of TrninferError.
    """
    arguments = RunArguments(
        dtype=dtype,
        target=target,
        backend=backend,
        batch_size=batch_size,
        top_k=top_k,
        cores=cores,
        cluster=cluster,
        layout=layout,
        on_error=on_error,
        lnc=lnc,
        launches=launches,
        eight_bits=eight_bits,
        calibrate=calibrate,
    )
    loaded = load_for_pictures(model, arguments)
    right = None if labels is None else PictureLabels(os.fsdecode(labels), loaded.network.answer_labels)
    with arguments.open(loaded) as session:
        return answer_pictures(inputs, loaded, session, arguments, right)


def detect(
    inputs: Picture | Iterable[Picture],
    model: str | os.PathLike[str] | Model = "digits-detect",
    *,
    confidence: float = CONFIDENCE,
    iou: float = IOU,
    max_detections: int = MAX_DETECTIONS,
    dtype: Dtype = "float32",
    target: Target | None = None,
    backend: BackendName = "auto",
    batch_size: int = 16,
    cores: int = 1,
    cluster: str | None = None,
    layout: Layout | None = None,
    on_error: OnError = "raise",
    lnc: int = 1,
) -> Answers:
    """Find objects in pictures.

    Each prediction has `boxes`, in order of decreasing confidence, with `label`, `class_index`, `confidence` and `x1`,
    `y1`, `x2`, `y2` in pixels of the picture, whose width and height are its `size`; also `mask` and `keypoints` if the
    network has them. For arrays of preprocessed numbers, boxes are in pixels of the network's input.

    Boxes with a confidence of at most `confidence` are discarded, and so is the less confident of two boxes of the same
    class whose intersection over union exceeds `iou`. The number of boxes per picture is limited to `max_detections`.
    `model` is the path of a model file or of an ONNX file with boxes, a bundled name, or a loaded model. See `classify`
    for other arguments and errors.
    """
    arguments = RunArguments(
        dtype=dtype,
        target=target,
        backend=backend,
        batch_size=batch_size,
        cores=cores,
        cluster=cluster,
        layout=layout,
        on_error=on_error,
        lnc=lnc,
    )
    limits = check_limits(confidence, iou, max_detections)
    loaded = arguments.load(model)
    if loaded.network.output.boxes is None:
        raise ModelError(f"model {loaded.network.name!r} does not predict boxes; use classify or predict")
    with arguments.open(loaded) as session:
        findings = Findings(arguments, "picture")
        sizes: dict[str | int, tuple[int, int]] = {}
        spec = loaded.network.input
        batches = PictureReader(inputs, spec, batch_size, arguments.layout, findings.refuse, sizes)
        return answer_all("detect", loaded, batches, session, findings, Detector(limits, sizes))


def predict(
    inputs: Rows,
    model: str | os.PathLike[str] | Model = "digits-ffnn",
    *,
    dtype: Dtype = "float32",
    target: Target | None = None,
    backend: BackendName = "auto",
    batch_size: int = 2048,
    top_k: int = 5,
    cores: int = 1,
    cluster: str | None = None,
    header: Header = "auto",
    on_error: OnError = "raise",
    lnc: int = 1,
    launches: Per = "network",
    eight_bits: EightBitLayers = "inner",
    columns: Sequence[str] = (),
    drop: Sequence[str] = (),
    id_column: str | None = None,
    label_column: str | None = None,
) -> Answers:
    """Compute predictions for rows of features.

    `inputs` is an array [N, features], or [features] for one row, of finite real numbers (a NumPy array, a list, a
    pandas table, or anything with `__array__` or `__dlpack__`); the path of a .bin, .npy, .npz, .csv, .tsv or .parquet
    file as for `trninfer ffnn --data`, or a glob; the content of such a file (bytes), or a binary file object; a list
    of these; or an iterator over rows or blocks of rows, which is consumed lazily. The `input` of a prediction is the
    number of its row, counted from 0 over all inputs. `header` specifies whether the first line of a .csv or .tsv file
    is a header ("yes") or a row ("no"), or whether this is inferred from its content ("auto"); `notes` of the result
    report the choice, and warn if it is ambiguous.

    For a table (.csv, .tsv, .parquet), `columns` names the features in order, `drop` lists the columns to ignore,
    `id_column` is the column that identifies the rows in the predictions, and `label_column` contains the correct
    classes, with which the predictions are scored (`score` of the result). By default, if there is a single text
    column, it is used as the id, and a note is added to `notes`.

    See `classify` for other arguments and errors. If `on_error` is "collect", rows with NaN or infinity, and unreadable
    files, are listed in `errors`.
    """
    arguments = RunArguments(
        dtype=dtype,
        target=target,
        backend=backend,
        batch_size=batch_size,
        top_k=top_k,
        cores=cores,
        cluster=cluster,
        layout=None,
        on_error=on_error,
        lnc=lnc,
        launches=launches,
        eight_bits=eight_bits,
    )
    check_header(header)
    selection = choose_columns(columns, drop, id_column, label_column)
    loaded = load_for_rows(model, arguments)
    with arguments.open(loaded) as session:
        return answer_rows(inputs, loaded, session, arguments, header, selection)


async def classify_async(inputs: Picture | Iterable[Picture], *arguments: Any, **options: Any) -> Answers:
    """Awaitable version of `classify`, which runs in a thread. If the task is cancelled, work stops after the current
    batch."""
    return await in_thread(functools.partial(classify, *arguments, **options), inputs)


async def predict_async(inputs: Rows, *arguments: Any, **options: Any) -> Answers:
    """Awaitable version of `predict`, which runs in a thread. If the task is cancelled, work stops after the current
    batch."""
    return await in_thread(functools.partial(predict, *arguments, **options), inputs)


_thread = threading.local()  # `stopped`: the event, if any, that ends a thread's run early


async def in_thread(call: Callable[[Any], Value], inputs: Any) -> Value:
    """Run a call in its own thread, which ends after the current batch if the task is cancelled."""
    event = threading.Event()

    def run() -> Value:
        _thread.stopped = event
        try:
            return call(inputs)
        finally:
            _thread.stopped = None

    running = asyncio.get_running_loop().run_in_executor(None, run)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        event.set()
        raise


def load_for_pictures(model: str | os.PathLike[str] | Model, arguments: RunArguments) -> Model:
    """Load a model that reads pictures; raise ModelError for other models."""
    loaded = arguments.load(model)
    if isinstance(loaded.network.input, FeatureInput):
        raise ModelError(f"model {loaded.network.name!r} reads features, not pictures; use predict")
    if loaded.network.output.boxes is not None:
        raise ModelError(f"model {loaded.network.name!r} predicts boxes, not classes; use detect")
    if loaded.network.output.kind == "map":
        raise ModelError(f"model {loaded.network.name!r} predicts a class for each pixel; use segment")
    return loaded


def load_for_rows(model: str | os.PathLike[str] | Model, arguments: RunArguments) -> Model:
    """Load a model that reads rows of features; raise ModelError for other models."""
    loaded = arguments.load(model)
    if not isinstance(loaded.network.input, FeatureInput):
        raise ModelError(f"model {loaded.network.name!r} reads pictures, not features; use classify")
    return loaded


def choose_columns(
    columns: Sequence[str], drop: Sequence[str], id_column: str | None, label_column: str | None
) -> Columns:
    """Return the selected columns of a table; raise ArgumentError for values that are not names."""
    for name, value in (("columns", columns), ("drop", drop)):
        if isinstance(value, str) or not all(isinstance(item, str) for item in value):
            raise ArgumentError(f"{name} is {value!r:.60}; expected a list of column names")
    for name, column in (("id_column", id_column), ("label_column", label_column)):
        if column is not None and not isinstance(column, str):
            raise ArgumentError(f"{name} is {column!r:.60}; expected a column name, or None")
    return Columns(tuple(columns), tuple(drop), id_column, label_column)


def answer_pictures(
    inputs: Any, model: Model, session: BatchSession, arguments: RunArguments, right: PictureLabels | None = None
) -> Answers:
    """Compute predictions for pictures in a session, and score them if labels are known."""
    findings = Findings(arguments, "picture")
    batches = PictureReader(inputs, model.network.input, arguments.batch_size, arguments.layout, findings.refuse)
    answers = answer_all("classify", model, batches, session, findings)
    return answers if right is None else _scored(answers, model, lambda answer: right.class_of(str(answer.input)))


def _scored(answers: Answers, model: Model, right_class: Callable[[Prediction], int | None]) -> Answers:
    """Return the predictions with their score; raise ArgumentError for a network without classes."""
    labels = model.network.answer_labels
    if not labels:
        raise ArgumentError(
            f"model {model.network.name!r} outputs values, not classes, so its predictions cannot be scored"
        )
    scorer = Scorer(labels, answers.run.arguments.top_k if answers.run is not None else 1)
    for answer in answers:
        scorer.add(answer, right_class(answer))
    return replace(answers, score=scorer.score)


def answer_rows(
    inputs: Any,
    model: Model,
    session: BatchSession,
    arguments: RunArguments,
    header: str = "auto",
    columns: Columns | None = None,
) -> Answers:
    """Compute predictions for rows of features in a session, and score them if a column contains labels."""
    spec = model.network.input
    assert isinstance(spec, FeatureInput)
    findings = Findings(arguments, "row")
    reader = RowReader(inputs, spec, arguments.batch_size, header, findings.refuse, columns)
    reader.labels = model.network.labels

    def batches() -> Iterator[Batch]:
        for number, (names, rows) in enumerate(reader):
            note = range_note(model, rows) if number == 0 else None
            findings.notes += [note] if note is not None else []
            yield names, rows
        findings.notes += reader.notes

    answers = answer_all("ffnn", model, batches(), session, findings)
    for note in findings.notes:
        warnings.warn(note, stacklevel=3)
    if columns is None or columns.label_column is None:
        return answers
    return _scored(answers, model, lambda answer: reader.classes.get(answer.input))


class Findings:
    """Problems and notes about the inputs of a run. The first problem is raised unless problems are collected."""

    def __init__(self, arguments: RunArguments, noun: str) -> None:
        self.arguments = arguments
        self.problems: list[InputProblem] = []
        self.notes: list[str] = []
        self._noun = noun

    def refuse(self, name: str | int, reason: str) -> None:
        """Record an input for which no prediction can be computed, with the reason."""
        if self.arguments.on_error == "raise":
            raise InputError(f"{name if isinstance(name, str) else f'{self._noun} {name}'}: {reason}")
        self.problems.append(InputProblem(name, reason))


def answer_all(
    command: str,
    model: Model,
    batches: Iterable[Batch],
    session: BatchSession,
    findings: Findings,
    make: MakePredictions | None = None,
) -> Answers:
    began = time.perf_counter()
    patient = PatientSession(session) if isinstance(session, Session) else session
    stopped = getattr(_thread, "stopped", None)
    labels = max(len(output.labels) for output in model.network.named_outputs)
    make = make or functools.partial(make_predictions, top_k=min(findings.arguments.top_k, labels))
    result = run_batches(patient, batches, make, findings.refuse, stopped)
    return Answers(
        predictions=result.predictions,
        layers=result.layers,
        total_us=sum(layer.latency_us for layer in result.layers),
        latency_kind=result.info.latency_kind,
        model=model.network.name,
        backend=result.info.name,
        target=result.info.target,
        dtype=findings.arguments.dtype,
        errors=tuple(findings.problems),
        notes=tuple(findings.notes),
        run=Run(command, model, result.info, findings.arguments, time.perf_counter() - began),
    )

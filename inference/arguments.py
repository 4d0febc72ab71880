"""Arguments of the Python functions that run a network, and checks of these arguments."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from ..models.errors import ArgumentError, ModelError
from ..models.files import Model
from ..models.inputs import ImageInput, NamedInput, SeveralInputs
from ..models.network import Network
from ..runtime.backend import EIGHT_BITS, NETWORK_DTYPES
from ..runtime.choose import choose_backend
from ..runtime.launch_options import LNC, BackendName, Dtype, EightBitLayers, LaunchOptions, Per, Target
from ..runtime.open_model import open_model
from ..runtime.session import BatchSession, Session

Layout = Literal["CHW", "HWC"]
OnError = Literal["raise", "collect"]

MAX_BATCH_SIZE = 65_536
MAX_CORES = 4096


@dataclass(frozen=True)
class RunArguments:
    """Options for running a network. Raises ArgumentError if a value is not allowed."""

    dtype: Dtype = "float32"  # of weights and data
    target: Target | None = None  # None for the default of the command line
    backend: BackendName = "auto"
    batch_size: int = 16  # maximum number of inputs per launch
    top_k: int = 5  # maximum number of labels per prediction
    cores: int = 1  # number of workers
    cluster: str | None = None  # address of a Ray cluster, whose workers run the batches
    # whether arrays have channels first or last; by default, arrays of numbers have the layout of the model file, and
    # arrays of pixels have channels last
    layout: Layout | None = None
    on_error: OnError = "raise"  # raise an exception for the first unusable input, or collect all of them
    lnc: int = 1  # number of NeuronCores, 1 or 2, that form a logical core
    launches: Per = "network"  # as few launches as possible, or at least one per layer
    eight_bits: EightBitLayers = "inner"  # the layers that use 8 bits in float8_e4m3
    calibrate: str | os.PathLike[str] | None = None  # folder of pictures from which the scales are computed

    def __post_init__(self) -> None:
        _check_choice("dtype", self.dtype, tuple(NETWORK_DTYPES))
        _check_choice("backend", self.backend, get_args(BackendName))
        _check_choice("on_error", self.on_error, get_args(OnError))
        _check_choice("launches", self.launches, get_args(Per))
        _check_choice("eight_bits", self.eight_bits, get_args(EightBitLayers))
        self._check_eight_bits()
        if self.layout is not None:
            _check_choice("layout", self.layout, get_args(Layout))
        if self.target is not None and (not isinstance(self.target, str) or not 0 < len(self.target) <= 20):
            raise ArgumentError(f"target is {_shown(self.target)}; allowed: {', '.join(get_args(Target))} and None")
        if self.cluster is not None and (not isinstance(self.cluster, str) or not self.cluster):
            raise ArgumentError(f"cluster is {_shown(self.cluster)}; expected the address of a Ray cluster, or None")
        _check_whole("batch_size", self.batch_size, MAX_BATCH_SIZE)
        _check_whole("top_k", self.top_k)
        _check_whole("cores", self.cores, MAX_CORES)
        _check_whole("lnc", self.lnc, max(LNC))

    def _check_eight_bits(self) -> None:
        if self.calibrate is not None and not isinstance(self.calibrate, (str, os.PathLike)):
            raise ArgumentError(f"calibrate is {_shown(self.calibrate)}; expected the path of a folder of pictures")
        options = {"calibrate": self.calibrate is not None, "eight_bits": self.eight_bits != "inner"}
        for name, is_given in options.items():
            if is_given and self.dtype != EIGHT_BITS:
                raise ArgumentError(f"{name} requires dtype {EIGHT_BITS!r}, not {self.dtype!r}")
        if self.lnc > 1 and self.launches == "layer":
            raise ArgumentError("launches='layer' runs every kernel on one NeuronCore, so lnc must be 1")

    @property
    def is_shared(self) -> bool:
        """Return True if batches are run by worker processes."""
        return self.cores > 1 or self.cluster is not None

    @contextlib.contextmanager
    def open(self, model: Model) -> Iterator[BatchSession]:
        """Open a session of a model; its workers are stopped when the block ends."""
        if not self.is_shared:
            yield self.session(model)
            return
        from ..runtime.workers.shared_session import share_out

        cores = self.cores if self.cluster is None or self.cores > 1 else None
        with share_out(
            model,
            self.dtype,
            cores,
            backend=self.backend,
            target=self.target,
            lnc=self.lnc,
            address=self.cluster,
            launches=self.launch_options(model),
        ) as session:
            yield session

    def session(self, model: Model, keep_timelines: bool = False) -> Session:
        """Return a session of a model in this process."""
        backend = choose_backend(self.backend, self.target, keep_timelines, self.lnc)
        return Session(model, backend, self.dtype, self.batch_size, self.launch_options(model))

    def launch_options(self, model: Model) -> LaunchOptions:
        """Return the options for launching a model. Raises InputError if the pictures of `calibrate` cannot be read."""
        calibration = None
        if self.calibrate is not None:
            from .calibration_pictures import read_pictures

            calibration, _ = read_pictures(self.calibrate, model)
        return LaunchOptions(per=self.launches, calibration=calibration, eight_bits=self.eight_bits)

    def load(self, model: str | os.PathLike[str] | Model) -> Model:
        """Load a model with the requested layout of arrays. Raises ModelError if it cannot be read."""
        if not isinstance(model, (str, os.PathLike, Model)):
            raise ArgumentError(f"model is {_shown(model)}; expected a bundled name, the path of a file or a Model")
        loaded = model if isinstance(model, Model) else open_model(model)
        return loaded if self.layout is None else in_layout(loaded, self.layout)


def in_layout(model: Model, layout: Layout) -> Model:
    """Return the model with this layout for arrays of images. Raises ModelError for a model that reads features."""
    spec = model.network.input
    if isinstance(spec, ImageInput):
        new_spec: ImageInput | SeveralInputs = replace(spec, layout=layout)
    elif isinstance(spec, SeveralInputs):
        parts = tuple(
            NamedInput(part.name, replace(part.input, layout=layout)) if isinstance(part.input, ImageInput) else part
            for part in spec.parts
        )
        new_spec = replace(spec, parts=parts)
    else:
        raise ModelError(f"model {model.network.name!r} reads features; layout applies only to pictures")
    network: Network = replace(model.network, input=new_spec)
    return replace(model, network=network)


def _check_choice(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in allowed:
        raise ArgumentError(f"{name} is {_shown(value)}; allowed: {', '.join(allowed)}")


def _check_whole(name: str, value: Any, most: int | None = None) -> None:
    if type(value) is not int or value < 1 or (most is not None and value > most):
        bounds = "of at least 1" if most is None else f"from 1 to {most}"
        raise ArgumentError(f"{name} is {_shown(value)}; expected an integer {bounds}")


def _shown(value: Any) -> str:
    """Format a value for an error message, regardless of its length and repr."""
    try:
        text = repr(value)
    except Exception:
        return f"a {type(value).__name__}"
    return text if len(text) <= 60 and text.isprintable() else f"a {type(value).__name__}"

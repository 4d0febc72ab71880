"""`simulator.run`, which launches and times a kernel, and the cache for launches of pure kernels."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..checking.sanitizing import choice, chosen, findings_of, look_for
from ..instructions.core import NeuronCore
from ..machine.chip import Target, find_target
from ..machine.host import one_thread, uncollected
from ..timing.constants import changed, overrides
from ..timing.program_timing import ProgramTiming
from .kernel import Kernel, TensorSpec, degree, execute, notify, on_cores, predict
from .replay import Recording, ReplayableLaunch, Replays
from .run import Run

_PREDICTIONS: OrderedDict[Any, ProgramTiming] = OrderedDict()  # predictions of shape-only runs, the oldest first
_REMEMBERED = 200  # maximum number of remembered programs
_REPLAYS = Replays()
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_REPLAYS.begin_anew)
_REMEMBERED_INSTRUCTIONS = 100_000  # limit for the sum over all cached programs, at about 2 KB per instruction


def run(
    kernel: Callable[..., Any],
    *arrays: Any,
    target: str = "trn2",
    dge: bool = True,
    profiled: bool = False,
    functional: bool = True,
    constants: Mapping[str, float] | None = None,
    sanitize: bool | str = False,
    pure: bool = False,
    lnc: int | None = None,
    **parameters: Any,
) -> Run:
    """Run a kernel on the simulator and predict its time on the chip. PyTorch tensors are treated like arrays.

    `dge`: whether hardware generates DMA descriptors (trn2 and newer), as is the case unless the compiler is run with
    --disable-dge. `profiled`: whether the launch overhead is counted as in a profile's total_time rather than as in a
    benchmark. `functional`: if False, only shapes are propagated, no values are computed, and arguments may be
    TensorSpecs. `constants`: overrides of timing constants (timing/constants/), to predict the times of a hypothetical
    machine; the note of the run then says so. `pure`: the kernel depends only on its arguments, not on helper functions
    that change in a notebook, so that a repeated launch can be replayed. `sanitize`: True checks for races, overlaps,
    and lost and uninitialised values (sanitizer.py), "numeric" checks for NaN, infinities, saturation and lost digits
    (numeric.py), and "all" performs both checks; the results are in `findings` of the run. `lnc`: the number of cores
    of the logical core, 1 or 2; by default, NEURON_LOGICAL_NC_CONFIG or the kernel's launch grid determines it.
    """
    kernel = kernel if lnc is None else on_cores(kernel, lnc)
    resolved = find_target(target)
    kinds = choice(sanitize) or chosen()
    with changed(resolved.name, constants or {}), one_thread():
        key = launch_key(kernel, arrays, resolved, dge, parameters) if pure and not kinds else None
        return _run(
            _Launch(kernel, arrays, parameters, resolved, dge, profiled=profiled, functional=functional), kinds, key
        )


class _Launch(NamedTuple):
    """The arguments of `run` that determine its result, with the target resolved."""

    kernel: Callable[..., Any]
    arrays: tuple[Any, ...]
    parameters: dict[str, Any]
    target: Target
    dge: bool
    profiled: bool
    functional: bool


def _keep_replay(key: Any, core: NeuronCore, recording: Recording, prediction: Any) -> None:
    """Keep the recording of a launch, so that the next one with the same key is replayed."""
    if core.partner is not None:  # the instructions of the partner were not recorded
        recording.spoil()
    _REPLAYS.keep(key, _REPLAYS.make(recording, len(core.program), core.registers), prediction)


def _run(launch: _Launch, kinds: frozenset[str], key: Any) -> Run:
    """Run a launch with the current constants; see `run`.

    `key` identifies the launch if it may be replayed, and is None otherwise.
    """
    kernel, arrays, parameters, target, dge, profiled, functional = launch
    name = getattr(kernel, "__name__", "kernel")
    again = _REPLAYS.seen(key) if functional else None
    if isinstance(again, ReplayableLaunch):
        host_arrays = [value for value in (*arrays, *parameters.values()) if isinstance(value, np.ndarray)]
        notify(again.prediction, name, host_arrays)
        return Run(again.prediction, _REPLAYS.run(again, host_arrays), name, profiled)
    known = _PREDICTIONS.get(key) if key is not None and not functional else None
    if known is not None:
        _PREDICTIONS.move_to_end(key)
        return Run(known, known.blank_outputs, name, profiled)
    core = NeuronCore(target, functional, dge)
    look_for(core, kinds)
    if again:
        core.recording = Recording()
    with uncollected():
        returned = execute(core, kernel, arrays, parameters)
    outputs = tuple(returned) if isinstance(returned, (tuple, list)) else (returned,)
    prediction = predict(core)
    if core.recording is not None:
        _keep_replay(key, core, core.recording, prediction)
    elif key is not None and not functional:
        prediction.blank_outputs = outputs
        _remember(key, prediction)
    return Run(prediction, outputs, name, profiled, findings_of(core))


def launch_key(kernel: Any, arrays: tuple[Any, ...], target: Target, dge: bool, parameters: dict[str, Any]) -> Any:
    """Return a key that contains everything on which a shape-only run depends, or None if there is no such key."""
    values = [*arrays, *parameters.values()]
    # The key includes the representations of values, because -0.0 equals 0.0 and (1,) equals (1.0,).
    shapes = [
        (v.shape, str(v.dtype)) if isinstance(v, (np.ndarray, TensorSpec)) else (type(v), v, repr(v)) for v in values
    ]
    if isinstance(kernel, Kernel):
        kernel = (kernel.function, degree(kernel), kernel.schedule)
    key = (kernel, target.name, dge, overrides(), len(arrays), tuple(parameters), tuple(shapes))
    try:
        hash(key)
    except TypeError:
        return None
    return key


def _remember(key: Any, prediction: ProgramTiming) -> None:
    _PREDICTIONS[key] = prediction
    if len(_PREDICTIONS) > _REMEMBERED:
        _PREDICTIONS.popitem(last=False)
    while len(_PREDICTIONS) > 1 and sum(len(p.program) for p in _PREDICTIONS.values()) > _REMEMBERED_INSTRUCTIONS:
        _PREDICTIONS.popitem(last=False)

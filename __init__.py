"""trninfer: small networks on an AWS Trainium NeuronCore, with kernels that can be read and times that can be traced.

`classify` and `predict` run networks, `load_model` reads one, `simulator` is the NeuronCore simulator; see
`trninfer.api` for all of it. Nothing heavy is imported before it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .version import __version__

if TYPE_CHECKING:
    from . import simulator
    from .api import (
        Answers,
        BackendUnavailable,
        InputError,
        KernelError,
        LabelProbability,
        LayerTiming,
        Model,
        ModelError,
        OverflowedError,
        Picture,
        Prediction,
        TargetError,
        classify,
        load_model,
        predict,
    )

__all__ = [
    "Answers",
    "BackendUnavailable",
    "InputError",
    "KernelError",
    "LabelProbability",
    "LayerTiming",
    "Model",
    "ModelError",
    "OverflowedError",
    "Picture",
    "Prediction",
    "TargetError",
    "__version__",
    "classify",
    "load_model",
    "predict",
    "simulator",
]


def __getattr__(name: str) -> Any:
    if name == "simulator":
        return import_module(".simulator", __name__)
    if name in __all__:
        value = getattr(import_module(".api", __name__), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

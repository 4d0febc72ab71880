"""trninfer: small networks on an AWS Trainium NeuronCore, with kernels that can be read and times that can be traced.

    import trninfer

    answers = trninfer.classify(["7.png", "3.png"])
    for answer in answers.predictions:
        print(answer.input, answer.label, answer.probability)
    for layer in answers.layers:
        print(layer.name, layer.latency_us, answers.latency_kind)

    classes = trninfer.predict(features, model="digits-ffnn", dtype="bfloat16").classes

What goes wrong is raised: `InputError` for inputs, `ModelError` for models, `BackendUnavailable` and `TargetError` for
where it is to run, `KernelError` and `OverflowedError` for networks that cannot run there, and ValueError for other
arguments. Messages are one line. `trninfer.simulator` has the simulator alone, for kernels of one's own. Nothing heavy
is imported before it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .version import __version__

if TYPE_CHECKING:
    from . import simulator
    from .inference.answers import Answers, Picture, classify, predict
    from .inference.classifier import Classifier
    from .inference.predictions import LabelProbability, Prediction
    from .models.errors import InputError, ModelError
    from .models.files import Model, load_model
    from .runtime.backend import BackendUnavailable, KernelError, TargetError
    from .runtime.session import OverflowedError
    from .runtime.timing import LayerTiming

_HOMES = {
    ".inference.answers": ("Answers", "Picture", "classify", "predict"),
    ".inference.classifier": ("Classifier",),
    ".inference.predictions": ("LabelProbability", "Prediction"),
    ".models.errors": ("InputError", "ModelError"),
    ".models.files": ("Model", "load_model"),
    ".runtime.backend": ("BackendUnavailable", "KernelError", "TargetError"),
    ".runtime.session": ("OverflowedError",),
    ".runtime.timing": ("LayerTiming",),
}

__all__ = [
    "Answers",
    "BackendUnavailable",
    "Classifier",
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
    for home, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(home, __name__), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

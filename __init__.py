"""trninfer: small networks on an AWS Trainium NeuronCore, with readable kernels and traceable times.

    import trninfer

    answers = trninfer.classify(["7.png", "3.png"])
    for answer in answers:
        print(answer.input, answer.label, answer.probability)
    for layer in answers.layers:
        print(layer.name, layer.latency_us, answers.latency_kind)

    classes = trninfer.predict(features, model="digits-ffnn", dtype="bfloat16").classes
    print(trninfer.bench("digits-cnn", batch_size=16))  # the table of layers
    network = trninfer.import_model("net.onnx", "net.safetensors").model
    boxes = trninfer.detect("street.jpg", model="yolov8n.onnx")[0].boxes
    pixels = trninfer.segment("street.jpg", model="fcn.onnx")[0].map.pixels  # class of each pixel
    digits = trninfer.Classifier("digits-cnn")  # loaded once, used many times
    digits.classify("photos/*.jpg", on_error="collect").save("answers.csv")

Every error is a `TrninferError` with a one-line message: `InputError` for an unusable input, which the message names
(`OverflowedError` if its numbers are too large for the dtype), `ArgumentError` for an invalid argument, `ModelError`
for an invalid model, `TargetError` or `BackendUnavailable` for a target or backend that cannot be used, and
`KernelError` for a network that cannot run on it. Any other exception is a bug in the program. `trninfer.simulator`
contains only the simulator, for custom kernels. Large modules are imported only when they are used. See docs/python.md
for details.
"""

import sys

if getattr(sys, "argv", [])[:1] == ["-m"]:  # `python -m` locates this package; even `__future__` is not imported before
    from .search_path import forget_current_folder

    forget_current_folder(__name__)

from importlib import import_module

from .version import __version__

TYPE_CHECKING = False  # importing `typing` takes milliseconds, in which Ctrl-C would end with a traceback
if TYPE_CHECKING:
    from typing import Any

    from . import simulator
    from .api.answers import Answers
    from .api.benchmarks import Benchmark, bench
    from .api.classifiers import Classifier, Predictor
    from .api.functions import classify, classify_async, detect, predict, predict_async
    from .api.imports import ImportedModel, import_model
    from .api.segmentation import segment
    from .inference.box import Box
    from .inference.class_maps import ClassArea, ClassMap
    from .inference.predictions import LabelProbability, OutputAnswer, Prediction
    from .inference.python_inputs import Picture, Rows
    from .inference.search import InputProblem
    from .models.errors import ArgumentError, InputError, ModelError, TrninferError
    from .models.files import Model, load_model
    from .runtime.backend import BackendUnavailable, KernelError, TargetError
    from .runtime.session import OverflowedError
    from .runtime.timing import LayerTiming

_HOMES = {
    ".api.answers": ("Answers",),
    ".api.benchmarks": ("Benchmark", "bench"),
    ".api.classifiers": ("Classifier", "Predictor"),
    ".api.functions": ("classify", "classify_async", "detect", "predict", "predict_async"),
    ".api.imports": ("ImportedModel", "import_model"),
    ".api.segmentation": ("segment",),
    ".inference.class_maps": ("ClassArea", "ClassMap"),
    ".inference.box": ("Box",),
    ".inference.predictions": ("LabelProbability", "OutputAnswer", "Prediction"),
    ".inference.python_inputs": ("Picture", "Rows"),
    ".inference.search": ("InputProblem",),
    ".models.errors": ("ArgumentError", "InputError", "ModelError", "TrninferError"),
    ".models.files": ("Model", "load_model"),
    ".runtime.backend": ("BackendUnavailable", "KernelError", "TargetError"),
    ".runtime.session": ("OverflowedError",),
    ".runtime.timing": ("LayerTiming",),
}

__all__ = [
    "Answers",
    "ArgumentError",
    "BackendUnavailable",
    "Benchmark",
    "Box",
    "ClassArea",
    "ClassMap",
    "Classifier",
    "ImportedModel",
    "InputError",
    "InputProblem",
    "KernelError",
    "LabelProbability",
    "LayerTiming",
    "Model",
    "ModelError",
    "OutputAnswer",
    "OverflowedError",
    "Picture",
    "Prediction",
    "Predictor",
    "Rows",
    "TargetError",
    "TrninferError",
    "__version__",
    "bench",
    "classify",
    "classify_async",
    "detect",
    "import_model",
    "load_model",
    "predict",
    "predict_async",
    "segment",
    "simulator",
]


def __getattr__(name: str) -> "Any":
    if name == "simulator":
        return import_module(".simulator", __name__)
    for home, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(home, __name__), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

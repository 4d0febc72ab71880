"""Generate the Markdown reference of the Python interface from signatures and docstrings."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Iterator
from typing import Any

import trninfer

_GROUPS = {
    "Functions": (
        "classify",
        "predict",
        "detect",
        "segment",
        "classify_async",
        "predict_async",
        "bench",
        "import_model",
        "load_model",
    ),
    "Objects that are loaded once": ("Classifier", "Predictor"),
    "Results": (
        "Answers",
        "Prediction",
        "LabelProbability",
        "OutputAnswer",
        "InputProblem",
        "LayerTiming",
        "Model",
        "Box",
        "ClassMap",
        "ClassArea",
        "Benchmark",
        "ImportedModel",
    ),
    "Errors": (
        "TrninferError",
        "InputError",
        "OverflowedError",
        "ArgumentError",
        "ModelError",
        "TargetError",
        "BackendUnavailable",
        "KernelError",
    ),
}
_ALIASES = {
    "Picture": "A picture in any form that `classify` accepts.",
    "Rows": "Rows of features in any form that `predict` accepts.",
    "simulator": "The simulator on its own: [simulator.md](simulator.md).",
    "__version__": "The version, as text.",
}


def api_block() -> str:
    """Return the reference of everything in `trninfer.__all__`, in groups."""
    known = {*_ALIASES, *(name for names in _GROUPS.values() for name in names)}
    if known != set(trninfer.__all__):
        raise RuntimeError(f"tools/api_reference.py and trninfer.__all__ differ in {known ^ set(trninfer.__all__)}")
    parts = []
    for title, names in _GROUPS.items():
        parts.append(f"### {title}")
        parts += [part for name in names for part in _entry(name, getattr(trninfer, name))]
    parts.append("### Others")
    parts.append("\n".join(f"- `trninfer.{name}`: {text}" for name, text in _ALIASES.items()))
    return "\n\n".join(parts)


def _public() -> dict[str, Any]:
    """Return the public names, including those that modules import only for type checkers."""
    return {name: getattr(trninfer, name) for name in trninfer.__all__}


def _entry(name: str, value: Any) -> Iterator[str]:
    if inspect.isclass(value) and issubclass(value, Exception):
        bases = ", ".join(f"`{base.__name__}`" for base in value.__bases__)
        yield f"- `trninfer.{name}` ({bases}): {_docstring(value)}"
        return
    yield f"#### `trninfer.{name}`"
    if not inspect.isclass(value):
        yield f"```python\n{_signature(name, value)}\n```"
        yield _docstring(value)
        return
    if not hasattr(value, "__dataclass_fields__"):
        yield f"```python\n{_signature(name, value.__init__)}\n```"
    yield _docstring(value)
    if hasattr(value, "__dataclass_fields__"):
        hints = typing.get_type_hints(value, localns=_public())
        fields = [field for field in value.__dataclass_fields__ if not field.startswith("_") and field != "run"]
        yield "\n".join(["| field | |", "|---|---|", *(f"| `{field}` | `{_kind(hints[field])}` |" for field in fields)])
    for member, method in vars(value).items():
        if isinstance(method, property):
            yield f"`.{member}`: {_docstring(method.fget)}"
        elif inspect.isfunction(method) and (not member.startswith("_") or member == "__call__"):
            yield f"```python\n.{_signature(member, method)}\n```"
            yield _docstring(method)


def _signature(name: str, call: Any) -> str:
    """Format `name(a, b=1)`, one parameter per line if it is long."""
    parameters = []
    keyword_only = False
    for parameter in inspect.signature(call).parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            parameters.append("*")
            keyword_only = True
        star = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}.get(parameter.kind.name, "")
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        kind = "" if parameter.annotation is parameter.empty or star else f": {parameter.annotation}"
        parameters.append(f"{star}{parameter.name}{kind}{default}")
    line = f"{name}({', '.join(parameters)})"
    return line if len(line) <= 100 else "{}(\n    {},\n)".format(name, ",\n    ".join(parameters))


def _kind(hint: Any) -> str:
    text = hint.__name__ if inspect.isclass(hint) and not typing.get_args(hint) else str(hint)
    return re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Za-z])", "", text).replace("|", "\\|")


def _docstring(value: Any) -> str:
    return inspect.cleandoc(value.__doc__ or "")

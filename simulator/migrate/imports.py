"""Imports and decorators of earlier NKIs, and the calls by which a host ran kernels."""

from __future__ import annotations

from typing import TypeVar

import libcst as cst

from .names import OLD_PACKAGE, Names, modern
from .notes import CHECK, Notes

MODULES = {"nki", "nki.language", "nki.isa", "nki.typing", "nki.collectives"}
JITS = frozenset({"nki.jit", "nki.trace", "nki.baremetal", "nki.benchmark", "nki.profile", "nki.nki_jit"}) | {
    "torch_neuronx.nki_jit",
    "torch_neuronx.xla_impl.custom_call.nki_jit",
    "neuronxcc.nki.jit",
}
DROPPED = (
    "nki.compiler.",
    "nki.language.skip_middle_end_transformations",
    "nki.language.enable_stack_allocator",
    "nki.language.force_auto_alloc",
)
RUNNERS = frozenset({"nki.baremetal", "nki.benchmark", "nki.profile", "nki.trace"})
_Annotated = TypeVar("_Annotated", cst.Parameters, cst.Annotation)
ENTRY_POINTS = RUNNERS | {"nki.simulate_kernel"}
GONE = ENTRY_POINTS | frozenset(
    {"nki.nki_jit", "nki.compiler"}
    | {f"nki.language.{name}" for name in ("par_dim", "arange", "mgrid", "loop_reduce", "spmd_dim", "nc", "dslice")}
    | {"nki.tensor", "nki.typing.mutable_tensor"}
)


def dotted_of(node: cst.BaseExpression | None) -> str:
    """The dotted text of a chain of attributes."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute):
        base = dotted_of(node.value)
        return f"{base}.{node.attr.value}" if base else ""
    return ""


def is_old(node: cst.BaseSmallStatement, keep_runners: bool = False) -> bool:
    """True if an import needs a change."""
    gone = GONE - ENTRY_POINTS if keep_runners else GONE
    if isinstance(node, cst.Import):
        return any(dotted_of(alias.name).split(".")[0] == OLD_PACKAGE for alias in node.names)
    if isinstance(node, cst.ImportFrom) and not isinstance(node.names, cst.ImportStar):
        module = dotted_of(node.module)
        own = modern(module) or module
        return module.split(".")[0] == OLD_PACKAGE or any(f"{own}.{dotted_of(a.name)}" in gone for a in node.names)
    return False


def lines_of(node: cst.BaseSmallStatement, keep_runners: bool = False) -> list[str]:
    """The imports that replace one of an earlier NKI; names that are gone have none."""
    lines = []
    if isinstance(node, cst.Import):
        for alias in node.names:
            name, bound = modern(dotted_of(alias.name)), dotted_of(alias.asname.name) if alias.asname else ""
            lines += _import(name, bound)
    elif isinstance(node, cst.ImportFrom) and not isinstance(node.names, cst.ImportStar):
        package = modern(dotted_of(node.module))
        for alias in node.names:
            name = dotted_of(alias.name)
            bound = dotted_of(alias.asname.name) if alias.asname else name
            dotted = f"{package}.{name}" if package else name
            if dotted not in GONE or (keep_runners and dotted in ENTRY_POINTS):
                lines += _import_from(package, name, bound)
    return lines


def _import(name: str, bound: str) -> list[str]:
    if name in GONE or name == "":
        return []
    if bound and bound != name:
        return [f"import {name} as {bound}"]
    return [f"import {name}"]


def _import_from(package: str, name: str, bound: str) -> list[str]:
    dotted = f"{package}.{name}" if package else name
    if dotted in MODULES:
        return [f"import {dotted} as {bound}"] if dotted != bound else [f"import {dotted}"]
    shown = f"{name} as {bound}" if bound != name else name
    return [f"from {package} import {shown}"]


class Decorators:
    """Decorators that made kernels, and those that only the first compiler took."""

    def __init__(self, names: Names, notes: Notes, keep_runners: bool = False) -> None:
        self._names = names
        self._notes = notes
        self._keep_runners = keep_runners

    def dotted(self, decorator: cst.Decorator) -> str:
        node = decorator.decorator
        text = dotted_of(node.func if isinstance(node, cst.Call) else node)
        return self._names.meaning(text)

    def is_kernel(self, function: cst.FunctionDef) -> bool:
        return any(self.dotted(decorator) in JITS for decorator in function.decorators)

    def migrate(self, function: cst.FunctionDef, line: int) -> cst.FunctionDef:
        """The function with the decorators of today."""
        kept, made = [], False
        for decorator in function.decorators:
            dotted = self.dotted(decorator)
            if dotted.startswith(DROPPED):
                continue
            if dotted not in JITS or (self._keep_runners and dotted in RUNNERS):
                kept.append(decorator)
                continue
            if made:
                continue
            made = True
            if dotted in ("nki.benchmark", "nki.profile"):
                message = f"@{dotted} is gone: the kernel is jitted; trninfer simulate predicts its time"
                self._notes.add(line, CHECK, message)
            plain = dotted == "nki.jit" and not _old_options(decorator)
            name = decorator.decorator if plain else cst.parse_expression("nki.jit")
            kept.append(decorator.with_changes(decorator=name))
        return function.with_changes(decorators=kept)


def _old_options(decorator: cst.Decorator) -> bool:
    node = decorator.decorator
    options = node.args if isinstance(node, cst.Call) else ()
    return any(
        argument.keyword is not None and argument.keyword.value in ("mode", "platform_target") for argument in options
    )


def without_old_annotations(parameters: _Annotated, names: Names) -> _Annotated:
    """Parameters, or what a function returns, with the annotations of today: `nki.tensor` is nl.NkiTensor."""

    class Annotations(cst.CSTTransformer):
        def leave_Annotation(self, original: cst.Annotation, updated: cst.Annotation) -> cst.Annotation:  # noqa: N802
            text = dotted_of(
                updated.annotation.value if isinstance(updated.annotation, cst.Subscript) else updated.annotation
            )
            old = ("nki.tensor", "nki.typing.tensor", "nki.typing.mutable_tensor", "nki.language.tensor")
            if names.meaning(text) in old:
                return updated.with_changes(annotation=cst.parse_expression(f"{names.nl}.NkiTensor"))
            return updated

    changed = parameters.visit(Annotations())
    assert isinstance(changed, type(parameters))
    return changed

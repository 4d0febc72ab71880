"""Rewrite imports and decorators of earlier NKI versions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import libcst as cst

from ..checking.lint.api import OPAQUE, api
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
# names of the runner parameter that takes the kernel, which is the first positional parameter
KERNEL_PARAMETERS = ("kernel", "func", "fn", "function")
OLD_OPTIONS = ("mode", "platform_target")  # options of nki.jit that NKI 0.7 does not support
_Annotated = TypeVar("_Annotated", cst.Parameters, cst.Annotation)
ENTRY_POINTS = RUNNERS | {"nki.simulate_kernel"}
GONE = ENTRY_POINTS | frozenset(
    {"nki.nki_jit", "nki.compiler"}
    | {f"nki.language.{name}" for name in ("par_dim", "arange", "mgrid", "loop_reduce", "spmd_dim", "nc", "dslice")}
    | {"nki.tensor", "nki.typing.mutable_tensor"}
)


def dotted_of(node: cst.BaseExpression | None) -> str:
    """Return a chain of attributes as a dotted name."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute):
        base = dotted_of(node.value)
        return f"{base}.{node.attr.value}" if base else ""
    return ""


def is_old(node: cst.BaseSmallStatement, keep_runners: bool = False) -> bool:
    """Return True if an import must be changed."""
    if isinstance(node, cst.Import):
        return any(dotted_of(alias.name).split(".")[0] == OLD_PACKAGE for alias in node.names)
    if isinstance(node, cst.ImportFrom) and not node.relative:
        module = dotted_of(node.module)
        current = modern(module) or module
        names = () if isinstance(node.names, cst.ImportStar) else node.names
        old = any(is_gone(f"{current}.{dotted_of(a.name)}", keep_runners) for a in names)
        return module.split(".")[0] == OLD_PACKAGE or old
    return False


def is_gone(dotted: str, keep_runners: bool = False) -> bool:
    """Return True for a module or name that no longer exists in NKI 0.7."""
    if keep_runners and dotted in ENTRY_POINTS:
        return False
    if dotted in GONE or dotted.split(".")[0] == OLD_PACKAGE:
        return True
    module, _, name = dotted.rpartition(".")
    if not dotted.startswith("nki.") or dotted in MODULES or f"nki.{dotted.split('.')[1]}" in OPAQUE:
        return False
    return name not in api().names.get(module, ())


@dataclass(frozen=True)
class ImportedName:
    """An imported name, and the line that binds it in NKI 0.7 ("" if there is no equivalent)."""

    bound: str
    dotted: str
    line: str


def imported(node: cst.BaseSmallStatement, keep_runners: bool = False) -> list[ImportedName]:
    """Return the names that an import of an earlier NKI version binds, each with the import that replaces it."""
    if isinstance(node, cst.Import):
        return [_imported_module(alias, keep_runners) for alias in node.names]
    if not isinstance(node, cst.ImportFrom):
        return []
    package = modern(dotted_of(node.module))
    if isinstance(node.names, cst.ImportStar):
        return [ImportedName("*", package, f"from {package} import *" if package in MODULES else "")]
    return [_imported_name(package, alias, keep_runners) for alias in node.names]


def _imported_module(alias: cst.ImportAlias, keep_runners: bool) -> ImportedName:
    """Return the name that `import module` binds, with the import that replaces it."""
    old, bound = dotted_of(alias.name), dotted_of(alias.asname.name) if alias.asname else ""
    name = modern(old)
    line = f"import {name} as {bound}" if bound not in ("", name) else f"import {name}"
    is_removed = not name or is_gone(name, keep_runners)
    return ImportedName(bound or old.split(".")[0], name, "" if is_removed else line)


def _imported_name(package: str, alias: cst.ImportAlias, keep_runners: bool) -> ImportedName:
    """Return the name that `from package import name` binds, with the import that replaces it."""
    name = dotted_of(alias.name)
    bound = dotted_of(alias.asname.name) if alias.asname else name
    if package == "nki.isa.constants" and name in api().names.get("nki.isa", ()):
        return ImportedName(bound, f"nki.isa.{name}", _import_from("nki.isa", name, bound))
    dotted = f"{package}.{name}" if package else name
    return ImportedName(bound, dotted, "" if is_gone(dotted, keep_runners) else _import_from(package, name, bound))


def _import_from(package: str, name: str, bound: str) -> str:
    dotted = f"{package}.{name}" if package else name
    if dotted in MODULES:
        return f"import {dotted} as {bound}" if dotted != bound else f"import {dotted}"
    return f"from {package} import {name} as {bound}" if bound != name else f"from {package} import {name}"


TENSOR_TYPES = ("nki.tensor", "nki.typing.tensor", "nki.typing.mutable_tensor", "nki.language.tensor")


class Decorators:
    """Rewrites decorators that define kernels, and decorators that only the first compiler accepted."""

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
        """Return the function with the decorators of NKI 0.7."""
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
                message = f"@{dotted} was removed: the kernel is jitted; trninfer simulate predicts its time"
                self._notes.add(line, CHECK, message)
            plain = dotted == "nki.jit" and not _old_options(decorator)
            name = decorator.decorator if plain else cst.parse_expression("nki.jit")
            kept.append(decorator.with_changes(decorator=name))
        return function.with_changes(decorators=kept)


def _old_options(decorator: cst.Decorator) -> bool:
    node = decorator.decorator
    options = node.args if isinstance(node, cst.Call) else ()
    return any(argument.keyword is not None and argument.keyword.value in OLD_OPTIONS for argument in options)


def without_old_annotations(parameters: _Annotated, names: Names) -> _Annotated:
    """Rewrite annotations of parameters or of a return value: `nki.tensor` becomes nl.NkiTensor."""

    class Annotations(cst.CSTTransformer):
        def leave_Annotation(self, original: cst.Annotation, updated: cst.Annotation) -> cst.Annotation:  # noqa: N802
            text = dotted_of(
                updated.annotation.value if isinstance(updated.annotation, cst.Subscript) else updated.annotation
            )
            if names.meaning(text) in TENSOR_TYPES:
                return updated.with_changes(annotation=cst.parse_expression(f"{names.nl}.NkiTensor"))
            return updated

    changed = parameters.visit(Annotations())
    assert isinstance(changed, type(parameters))
    return changed

"""Rewrite calls in the form of NKI 0.2 to 0.6, which already write to `dst`.

Arguments that were renamed or removed are updated, and integers are replaced by enum members.
"""

from __future__ import annotations

import ast

from ..checking.lint.api import api
from ..nki.api import table
from ..nki.dialect import ENUMS
from .context import Result
from .expressions import Expressions
from .notes import CHECK, CannotError

RANGES = frozenset(f"nki.language.{name}" for name in ("affine_range", "sequential_range", "static_range"))
REGIONS = ("sbuf", "psum", "hbm", "private_hbm", "shared_hbm")
RENAMED = {
    ("nki.isa.nc_matmul", "is_moving_zero"): "is_moving_onezero",
    ("nki.collectives.collective_permute_implicit", "num_channels"): "channel_ids",
}
DROPPED = {
    ("nki.isa.dma_copy", "unique_indices"): "it belongs to nisa.dma_compute",
    ("nki.isa.nc_matmul", "psumAccumulateFlag"): "the first product in a region of PSUM overwrites it",
    ("nki.collectives.collective_permute_implicit_current_processing_rank_id", "num_channels"): "",
}


def call(ex: Expressions, node: ast.Call, dotted: str) -> Result | None:
    """Rewrite a call for NKI 0.7. Return None if it is unchanged."""
    if dotted in RANGES:
        return loop_range(ex, node)
    if not dotted.startswith("nki.") or not any(_is_old(dotted, keyword) for keyword in node.keywords):
        return None
    arguments = [ex.rewrite(argument).text for argument in node.args]
    for keyword in node.keywords:
        arguments += _argument(ex, dotted, keyword)
    return Result(f"{ex.module_name(dotted, ex.ctx.source.of(node.func))}({', '.join(arguments)})")


def loop_range(ex: Expressions, node: ast.Call) -> Result:
    """Rewrite a loop over numbers to use Python's range, as NKI 0.7 does."""
    keywords = {keyword.arg: keyword.value for keyword in node.keywords}
    bounds = [*node.args, *(keywords[parameter] for parameter in ("start", "stop", "step") if parameter in keywords)]
    for parameter in keywords:
        if parameter not in ("start", "stop", "step"):
            ex.ctx.add(
                CHECK,
                f"{parameter}= of a loop is removed, because the compiler orders instructions by their dependencies",
            )
    return Result(f"range({', '.join(ex.rewrite(bound).text for bound in bounds)})")


def _is_dtype(dotted: str, keyword: ast.keyword) -> bool:
    """Return True for the dtype argument of an instruction that no longer has one, since the dtype of `dst` determines
    it."""
    if keyword.arg != "dtype" or not dotted.startswith("nki.isa."):
        return False
    parameters = {parameter.name for parameter in api().signatures.get(dotted, ())}
    return "dst" in parameters and "dtype" not in parameters


def _is_old(dotted: str, keyword: ast.keyword) -> bool:
    if _is_dtype(dotted, keyword):
        return True
    name = str(keyword.arg)
    key = (dotted, name)
    special = key in (("nki.isa.register_move", "imm"), ("nki.isa.sendrecv", "use_gpsimd_dma"))
    named = name == "buffer" and isinstance(keyword.value, ast.Constant) and keyword.value.value in REGIONS
    return (
        key in RENAMED or key in DROPPED or special or named or (name in ENUMS and _number(keyword.value) is not None)
    )


def _number(node: ast.expr) -> int | None:
    value = node.value if isinstance(node, ast.Constant) else None
    return value if type(value) is int else None


def _argument(ex: Expressions, dotted: str, keyword: ast.keyword) -> list[str]:
    """Return an argument as source text, or an empty list if it must be omitted."""
    if keyword.arg is None:
        return [f"**{ex.rewrite(keyword.value).text}"]
    key, nisa = (dotted, keyword.arg), ex.ctx.nisa
    if _is_dtype(dotted, keyword):
        return []
    if key in DROPPED:
        reason = f": {DROPPED[key]}" if DROPPED[key] else ""
        ex.ctx.add(CHECK, f"{keyword.arg}= is removed{reason}")
        return []
    if keyword.arg == "buffer" and isinstance(keyword.value, ast.Constant) and keyword.value.value in REGIONS:
        return [f"buffer={ex.ctx.nl}.{keyword.value.value}"]
    text = ex.rewrite(keyword.value).text
    if key == ("nki.isa.register_move", "imm"):
        return [f"src={nisa}.register_alloc({text})"]
    if key == ("nki.isa.sendrecv", "use_gpsimd_dma"):
        if not isinstance(keyword.value, ast.Constant):
            raise CannotError("use_gpsimd_dma is not a constant: use dma_engine=nisa.dma_engine.gpsimd_dma")
        return [f"dma_engine={nisa}.dma_engine.gpsimd_dma"] if keyword.value.value else []
    return [f"{RENAMED.get(key, keyword.arg)}={enumerated(ex, keyword.arg, keyword.value) or text}"]


def enumerated(ex: Expressions, parameter: str, node: ast.expr) -> str:
    """Return the enum member that an integer argument represented, or "" if the argument is not an integer."""
    number = _number(node)
    return f"{ex.ctx.nisa}.{_member(parameter, number)}" if parameter in ENUMS and number is not None else ""


def _member(parameter: str, number: int) -> str:
    """Return the enum member that an integer represented, such as "dge_mode.swdge"."""
    enumeration = ENUMS[parameter].removeprefix("nisa.")
    for entry in table()["classes"]:
        if entry["module"] == "nki.isa" and entry["name"] == enumeration:
            for member in entry["members"]:
                if member["value"] == str(number):
                    return f"{enumeration}.{member['name']}"
    raise CannotError(f"{parameter}={number} is not the number of a member of {ENUMS[parameter]}")

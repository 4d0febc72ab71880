"""Local functions of ONNX files, which are inlined, and operators of TensorFlow that ONNX lacks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..errors import ModelError
from .onnx_tensors import MAX_RANK

if TYPE_CHECKING:
    import onnx

MAX_NODES = 50_000
MISSING = ("Erfc",)  # operators that tf2onnx copies from TensorFlow: Keras's exact GELU uses Erfc


def without_functions(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with its local functions inlined, unless that makes it too large."""
    if not model.functions:
        return model
    from onnx import inliner

    inside = {(function.domain, function.name): function for function in model.functions}
    sizes: dict[tuple[str, str], int] = {}

    def size(nodes: Iterable[onnx.NodeProto], within: tuple[tuple[str, str], ...]) -> int:
        total = 0
        for node in nodes:
            key = (node.domain, node.op_type)
            if key in within or len(within) > MAX_RANK:
                raise ModelError(f"its function {node.op_type!r} is recursive, or nested too deeply")
            if key in inside and key not in sizes:
                sizes[key] = size(inside[key].node, (*within, key))
            total += sizes.get(key, 1)
        return total

    if size(model.graph.node, ()) > MAX_NODES:
        raise ModelError(f"its functions expand to more than {MAX_NODES} nodes")
    try:
        return inliner.inline_local_functions(model)
    except Exception as error:  # the package's exceptions have no common base class
        raise ModelError(f"its functions cannot be expanded: {' '.join(str(error).split())[:120]}") from None


def with_standard_operators(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model without functions, with the operators in MISSING replaced by operators of ONNX."""
    if any(node.op_type in MISSING and not node.domain for node in model.graph.node):
        from onnx import helper

        erfc = [
            helper.make_node("Constant", [], ["one"], value_float=1.0),
            helper.make_node("Erf", ["x"], ["erf"]),
            helper.make_node("Sub", ["one", "erf"], ["y"]),
        ]
        model.functions.append(helper.make_function("", "Erfc", ["x"], ["y"], erfc, model.opset_import))
    return without_functions(model)

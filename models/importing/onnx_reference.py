"""Evaluation of rarely used operators on constants with `onnx.reference`, the reference implementation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ModelError
from .onnx_file import Node

if TYPE_CHECKING:
    import onnx

# Operators that are pure functions of their inputs. Random numbers, loops and operators with side effects are excluded.
_NAMES = """
Acos Acosh ArgMax ArgMin Asin Asinh Atan Atanh AveragePool BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Celu
Compress Conv ConvTranspose Cosh CumSum DepthToSpace Det Einsum Elu Erf EyeLike Gelu Gemm GatherElements GatherND
GlobalAveragePool GlobalMaxPool GreaterOrEqual GroupNormalization HardSigmoid HardSwish InstanceNormalization IsInf
IsNaN LayerNormalization LeakyRelu LessOrEqual LogSoftmax LpNormalization MatMul MaxPool Mean Mish NonZero OneHot PRelu
Pad ReduceLogSum ReduceLogSumExp Resize ScatterElements ScatterND Selu Shrink Sigmoid Sinh Size Softmax Softplus
Softsign SpaceToDepth Sum Tan TopK Trilu Unique Xor
"""
REFERENCE_OPS = frozenset(_NAMES.split())
_NOT_LARGER = ("NonZero", "Unique", "Compress")  # the output has at most the size of the input times its rank


def _model_of(node: Node, inputs: Sequence[np.ndarray | None], opset: int) -> onnx.ModelProto:
    """Return a model of one node whose inputs are constants."""
    from onnx import helper, numpy_helper

    names = [f"x{n}" if value is not None else "" for n, value in enumerate(inputs)]
    outputs = [f"y{n}" if name else "" for n, name in enumerate(node.outputs)]
    attributes: dict[str, Any] = {
        name: numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
        for name, value in node.attributes.items()
    }
    made = helper.make_node(node.op, names, outputs, **attributes)
    results = [helper.make_empty_tensor_value_info(name) for name in outputs if name]
    weights = [numpy_helper.from_array(np.asarray(value), name) for name, value in zip(names, inputs) if name]
    graph = helper.make_graph([made], "constants", [], results, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def _check_size(model: onnx.ModelProto, most: int) -> None:
    """Raise ModelError if the outputs of a model have more than `most` elements by ONNX's shape inference."""
    import onnx

    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    known = {value.name: value for value in (*inferred.graph.output, *inferred.graph.value_info)}
    if sum(_numbers(known.get(output.name), most) for output in model.graph.output) > most:
        raise ModelError("the file's constants are too large to evaluate")


def evaluate_by_reference(node: Node, inputs: Sequence[np.ndarray | None], opset: int, most: int) -> list[np.ndarray]:
    """Return the outputs of a node; raise ModelError if it fails or produces more than `most` elements."""
    from onnx.reference import ReferenceEvaluator

    try:
        model = _model_of(node, inputs, opset)
        if node.op not in _NOT_LARGER:
            _check_size(model, most)
        return [np.asarray(value) for value in ReferenceEvaluator(model).run(None, {})]
    except ModelError:
        raise
    except Exception:  # the reference implementation may raise any exception
        raise ModelError("its inputs, all constants, have incompatible shapes or types") from None


def _numbers(value: object, unknown: int) -> int:
    """Return the number of elements of a value, or `unknown` + 1 if its shape was not inferred."""
    shape = getattr(getattr(getattr(value, "type", None), "tensor_type", None), "shape", None)
    sizes = None if shape is None else [size.dim_value for size in shape.dim]
    has_shape = value is not None and value.type.tensor_type.HasField("shape")  # type: ignore[attr-defined]
    if sizes is None or not has_shape or any(size <= 0 for size in sizes):
        return unknown + 1
    return math.prod(sizes)

"""Evaluation of those nodes of an ONNX graph that do not depend on the data, such as transformations of weights and
shape arithmetic. They are computed by `onnx.reference`, the reference implementation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ModelError
from .onnx_attributes import integer, slice_parts, split_sizes
from .onnx_file import Node

if TYPE_CHECKING:
    import onnx

MAX_MADE = 1 << 24  # maximum number of elements stored while folding, or twice that of the file if larger
MAX_WORK = 24  # maximum number of elements computed, relative to that limit; standardising weights takes a dozen steps

# Operators that are pure functions of their inputs. Random numbers, loops and operators with side effects are excluded.
_ELEMENTWISE = """
Abs Acos Acosh Add And Asin Asinh Atan Atanh BatchNormalization BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast
CastLike Ceil Celu Clip Cos Cosh DequantizeLinear Div Elu Equal Erf Exp Floor Gelu Greater GreaterOrEqual HardSigmoid
HardSwish IsInf IsNaN LeakyRelu Less LessOrEqual Log Max Mean Min Mish Mod Mul Neg Not Or PRelu Pow Reciprocal Relu
Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Sub Sum Tan Tanh Where Xor
"""
_VIEWS = ("Flatten", "Reshape", "Shape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze")
_NOT_LARGER = """
ArgMax ArgMin Concat CumSum GlobalAveragePool GlobalMaxPool GroupNormalization InstanceNormalization LayerNormalization
LogSoftmax LpNormalization ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd
ReduceSum ReduceSumSquare Softmax Trilu
"""
_OF_DATA = ("Compress", "NonZero", "Unique")  # the number of elements depends on the values of the input
_INFERRED = """
AveragePool Conv ConvTranspose DepthToSpace Det Einsum EyeLike GatherElements GatherND Gemm MatMul MaxPool OneHot Pad
Resize ScatterElements ScatterND Size SpaceToDepth TopK
"""
_GIVEN = ("Constant", "Identity")  # not computed


class Folder:
    """Evaluator of nodes with constant inputs, within a memory budget that depends on the size of the file."""

    def __init__(self, numbers: int, opset: int = 20) -> None:
        self._opset = opset
        self._left = max(MAX_MADE, 2 * numbers)
        self._work_left = MAX_WORK * self._left
        self._sizes: dict[str, int] = {}  # number of stored elements, by the name of the computed value

    def evaluate(self, node: Node, inputs: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
        """Return the outputs of a node; raise ModelError if its operator is not supported or the budget is exceeded."""
        if node.op not in CONSTANT_OPS:
            raise ModelError("all of its inputs are constants, but trninfer import cannot evaluate this operator")
        try:
            if node.op in _GIVEN:
                return (_constant(node) if node.op == "Constant" else inputs[0],)  # type: ignore[return-value]
            with np.errstate(all="ignore"):
                _check_parts(node, inputs)
                size = self._size(node, inputs)
                self._spend(size)
                results = _run(node, inputs, self._opset)
        except ModelError:
            raise
        except Exception:  # the reference implementation may raise any exception
            raise ModelError("its inputs have incompatible shapes or types") from None
        self._sizes[next(filter(None, node.outputs))] = size
        for value in results:
            if value.dtype.kind not in "biuf":
                raise ModelError(f"its result has the type {value.dtype}, which is not supported")
        return results

    def release(self, name: str) -> None:
        """Record that a computed value has been released."""
        self._left += self._sizes.pop(name, 0)

    def _size(self, node: Node, inputs: Sequence[np.ndarray | None]) -> int:
        """Return the number of elements that a node will store, without computing it."""
        known = [value for value in inputs if value is not None]
        if node.op in _SIZES:
            return _SIZES[node.op](node, known)
        if node.op in _VIEWS and (node.op not in ("Reshape", "Flatten") or known[0].flags.c_contiguous):
            return 0
        if node.op in _ELEMENTWISE_OPS:
            return math.prod(np.broadcast_shapes(*(value.shape for value in known)))
        if node.op in _OF_DATA:
            return known[0].size * max(1, known[0].ndim)
        if node.op in _INFERRED_OPS:
            return _inferred_size(node, inputs, self._opset, self._left)
        return sum(value.size for value in known)

    def _spend(self, numbers: int) -> None:
        self._left -= numbers
        self._work_left -= numbers
        if min(self._left, self._work_left) < 0:
            raise ModelError("the file's constants are too large to evaluate")


def _check_parts(node: Node, inputs: Sequence[np.ndarray | None]) -> None:
    """Raise ModelError if the parts that a Slice or a Split selects are inconsistent."""
    data = inputs[0] if inputs else None
    if node.op == "Slice" and data is not None:
        slice_parts(node, inputs, data.ndim)
    if node.op == "Split" and data is not None:
        split_sizes(node, inputs, data.shape[integer(node, "axis", 0)])


def _size_of_shape(node: Node, known: Sequence[np.ndarray]) -> int:
    shape = known[-1].ravel()[:16].tolist()
    if min(shape, default=0) < 0 and node.op == "ConstantOfShape":
        raise ModelError("its shape has negative sizes")
    return math.prod(max(1, abs(int(size))) for size in shape) * (known[0].size if node.op == "Expand" else 1)


def _size_of_range(node: Node, known: Sequence[np.ndarray]) -> int:
    start, limit, step = (float(value.ravel()[0]) for value in known)
    return max(0, math.ceil((limit - start) / step)) if step else MAX_MADE * 2


def _size_of_tiles(node: Node, known: Sequence[np.ndarray]) -> int:
    return known[0].size * math.prod(max(0, int(times)) for times in known[1].ravel()[:16])


def _size_of_entries(node: Node, known: Sequence[np.ndarray]) -> int:
    return known[0].size // max(1, known[0].shape[integer(node, "axis", 0)]) * known[1].size


_SIZES: dict[str, Callable[[Node, Sequence[np.ndarray]], int]] = {
    "ConstantOfShape": _size_of_shape,
    "Expand": _size_of_shape,
    "Range": _size_of_range,
    "Tile": _size_of_tiles,
    "Gather": _size_of_entries,
    "BatchNormalization": lambda node, known: known[0].size,
    "DequantizeLinear": lambda node, known: known[0].size,
}
_ELEMENTWISE_OPS, _INFERRED_OPS = frozenset(_ELEMENTWISE.split()), frozenset(_INFERRED.split())
CONSTANT_OPS = frozenset(
    (*_ELEMENTWISE_OPS, *_INFERRED_OPS, *_NOT_LARGER.split(), *_SIZES, *_VIEWS, *_OF_DATA, *_GIVEN)
)


def _constant(node: Node) -> np.ndarray:
    for name, value in node.attributes.items():
        if name in ("value", "value_int", "value_ints", "value_float", "value_floats") and not isinstance(value, str):
            return np.asarray(value)
    raise ModelError(f"a value from {', '.join(node.attributes) or 'no attribute'} is not supported")


def _run(node: Node, inputs: Sequence[np.ndarray | None], opset: int) -> tuple[np.ndarray, ...]:
    """Return the outputs of a node as computed by the reference implementation."""
    from onnx.reference import ReferenceEvaluator

    # For opsets 9 to 13, ONNX's ReferenceEvaluator computes batch normalisation from the statistics of the batch.
    opset = max(14, opset) if node.op == "BatchNormalization" else opset
    feeds = {f"x{n}": np.asarray(value) for n, value in enumerate(inputs) if value is not None}
    return tuple(map(np.asarray, ReferenceEvaluator(_model_of(node, inputs, opset)).run(None, feeds)))


def _model_of(node: Node, inputs: Sequence[np.ndarray | None], opset: int) -> onnx.ModelProto:
    """Return a model of one node."""
    from onnx import helper, numpy_helper

    names = [f"x{n}" if value is not None else "" for n, value in enumerate(inputs)]
    outputs = [f"y{n}" if name else "" for n, name in enumerate(node.outputs)]
    attributes: dict[str, Any] = {
        name: numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
        for name, value in node.attributes.items()
        if not isinstance(value, tuple) or value
    }
    onnx_node = helper.make_node(node.op, names, outputs, **attributes)
    results = [helper.make_empty_tensor_value_info(name) for name in outputs if name]
    graph = helper.make_graph([onnx_node], "constants", [], results)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def _inferred_size(node: Node, inputs: Sequence[np.ndarray | None], opset: int, most: int) -> int:
    """Return the number of elements in the outputs according to ONNX's shape inference, or more than `most` if it is
    unknown."""
    import onnx
    from onnx import numpy_helper

    model = _model_of(node, inputs, opset)
    for n, value in enumerate(inputs):
        if value is not None:
            model.graph.initializer.append(numpy_helper.from_array(np.asarray(value), f"x{n}"))
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    known = {value.name: value for value in (*inferred.graph.output, *inferred.graph.value_info)}
    return sum(_elements(known.get(output.name), most) for output in model.graph.output)


def _elements(value: onnx.ValueInfoProto | None, most: int) -> int:
    """Return the number of elements of a value, or `most` + 1 if its shape was not inferred."""
    if value is None or not value.type.tensor_type.HasField("shape"):
        return most + 1
    sizes = [size.dim_value for size in value.type.tensor_type.shape.dim]
    return most + 1 if any(size <= 0 for size in sizes) else math.prod(sizes)

"""What each ONNX operator becomes: a function of the importer and the node, a file for each family."""

from collections.abc import Callable

from ..importer import Importer
from ..onnx_file import Node
from . import activations, arithmetic, classic, convolution, normalization, pooling, quantized, rearranging, reducing

Operator = Callable[[Importer, Node], None]

OPERATORS: dict[str, Operator] = {
    **convolution.OPERATORS,
    **pooling.OPERATORS,
    **reducing.OPERATORS,
    **activations.OPERATORS,
    **arithmetic.OPERATORS,
    **normalization.OPERATORS,
    **rearranging.OPERATORS,
    **quantized.OPERATORS,
    **classic.OPERATORS,
}

"""Conversion of ONNX operators. Each operator has a function of the importer and the node; each family has a file."""

from collections.abc import Callable

from ..importer import Importer
from ..onnx_file import Node
from . import (
    activations,
    arithmetic,
    classic,
    comparing,
    convolution,
    einsum,
    gathering,
    normalization,
    padding,
    pooling,
    quantized,
    rearranging,
    reducing,
    resampling,
    sampling,
    scattering,
    transposed,
)

Operator = Callable[[Importer, Node], None]

OPERATORS: dict[str, Operator] = {
    **convolution.OPERATORS,
    **einsum.OPERATORS,
    **pooling.OPERATORS,
    **reducing.OPERATORS,
    **activations.OPERATORS,
    **comparing.OPERATORS,
    **arithmetic.OPERATORS,
    **normalization.OPERATORS,
    **rearranging.OPERATORS,
    **gathering.OPERATORS,
    **scattering.OPERATORS,
    **padding.OPERATORS,
    **sampling.OPERATORS,
    **resampling.OPERATORS,
    **transposed.OPERATORS,
    **quantized.OPERATORS,
    **classic.OPERATORS,
}

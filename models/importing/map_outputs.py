"""Outputs of segmentation networks: scores [classes, rows, columns], recognised by their shape and last layers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from ..checks import MAX_LABELS
from ..errors import ModelError
from ..inputs import ImageInput, Input
from ..layers import Activation, Affine, ChannelSoftmax, Concat, PixelArgmax
from ..outputs import Output
from .builder import BuiltOutput
from .importer import Importer
from .onnx_meaning import FEATURES, has_word, last_step
from .picture import PreprocessingOptions
from .view import View

COARSEST = 8  # largest downscaling of a map, per axis; coarser outputs are features
COLOURS = 3  # an output with this many channels and the size of the image is a picture
WHOLE_PICTURES = PreprocessingOptions(resize_mode="squash", is_beside=True)  # every pixel gets a class
SIGMOIDS = ("sigmoid", "hardsigmoid")
_NO_CLASSES = (*FEATURES, "heatmap", "predicted_depth", "alphas")  # parts of the names of other outputs


def looks_like_map(importer: Importer, outputs: Sequence[BuiltOutput], source: Input) -> bool:
    """Return True if the first of the outputs looks like class scores for the pixels of an image.

    Such an output ends in a softmax over its channels; or it has at least 2 channels, no final activation, and rows and
    columns in proportion to the image, at least an eighth of them. Not a map: three channels with the size of the image
    (a picture), outputs of several sizes (the levels of a detector), and outputs whose names state something else, such
    as "heatmaps".
    """
    built = outputs[0]
    if not isinstance(source, ImageInput) or built.view is None or built.output.kind != "values":
        return False
    if _are_levels(outputs, source) or has_word(built.name, _NO_CLASSES):
        return False
    if len(built.shape) != 3:
        return False
    channels, rows, columns = _planes(built.view, source).shape
    last = last_step(importer.builder.layers, built.layer)
    if isinstance(last, ChannelSoftmax):
        return last.length == channels
    size = source.height, source.width
    if not 2 <= channels <= MAX_LABELS or min(rows, columns) < 2 or (channels == COLOURS and (rows, columns) == size):
        return False
    in_proportion = abs(rows * size[1] - columns * size[0]) <= max(size)
    return (
        in_proportion and rows <= size[0] <= COARSEST * rows and getattr(last, "activation", "identity") == "identity"
    )


def note_on_maps(importer: Importer, outputs: Sequence[BuiltOutput], source: Input) -> str:
    """Return a note if the primary output is interpreted as values but may be a class map, otherwise ""."""
    built = outputs[0]
    if (
        not isinstance(source, ImageInput)
        or built.view is None
        or (built.output.kind, len(built.shape)) != ("values", 3)
    ):
        return ""
    if _are_levels(outputs, source):
        return (
            "the outputs have several sizes and are read as values, like the levels of a detector; to get boxes, "
            "export the network with all boxes in one table (use --output-kind map if the primary output contains "
            "class scores)"
        )
    channels, *size = _planes(built.view, source).shape
    is_chance = getattr(last_step(importer.builder.layers, built.layer), "activation", "") in SIGMOIDS
    if size != [source.height, source.width] or not (is_chance or channels == COLOURS):
        return ""
    kind = "a picture" if channels == COLOURS else "values"
    shape_text = "x".join(map(str, built.shape))
    return f"the output of {shape_text} is read as {kind} (use --output-kind map if it contains a mask or class scores)"


def _are_levels(outputs: Sequence[BuiltOutput], source: ImageInput) -> bool:
    """Return True if outputs are maps of several sizes, all coarser than the image: the levels of a detector."""
    sizes = {built.shape[1:] for built in outputs if len(built.shape) == 3 and min(built.shape) > 1}
    return len(sizes) > 1 and max(rows for rows, _ in sizes) < source.height


def as_map(importer: Importer, outputs: Sequence[BuiltOutput], source: Input, is_guessed: bool) -> list[BuiltOutput]:
    """Return the outputs of a network with the first one as a map, whose classes are selected by an additional layer.

    Raises ModelError if the primary output cannot be a map. Auxiliary outputs of the same shape, which are only used in
    training, are omitted.
    """
    leading, builder = outputs[0], importer.builder
    if not isinstance(source, ImageInput):
        raise ModelError("a class map requires a network whose only input is an image")
    if leading.view is None or len(leading.shape) != 3:
        raise ModelError(
            f"a class map requires scores of shape [classes, rows, columns], but the output {leading.name!r} has the "
            f"shape "
            f"{list(leading.shape)}"
        )
    others = [output for output in outputs[1:] if output.shape != leading.shape]
    left_out = [output for output in outputs[1:] if output.shape == leading.shape]
    view = _planes(_before_squeezing(importer, leading.view), source)
    channels, *shape = view.shape
    layer = importer.planes(view)
    if channels == 1:  # one class or none: compare its logit with 0
        zero = Affine(importer.name("other"), (1,), inputs=(layer,))
        builder.add(zero, {"scale": np.zeros(1), "shift": np.zeros(1)})
        layer = builder.add(Concat(importer.name("scores"), inputs=(zero.name, layer)))
        importer.note("pixels above 0 (a probability of 0.5) are class 1 of the map; all others are class 0")
        channels = 2
    classes = builder.add(PixelArgmax(importer.name("classes"), channels, inputs=(layer,)))
    if left_out:
        names = ", ".join(repr(output.name) for output in left_out)
        importer.note(f"ignored: {names}, another map of the same shape (--output-name selects one)")
    if is_guessed:
        sizes = "x".join(map(str, leading.shape))
        importer.note(f"the output of {sizes} is read as a class map (use --output-kind values for the raw numbers)")
    return [BuiltOutput(leading.name, classes, tuple(shape), Output("map"), leading.view, channels), *others]


def is_channels_last(built: BuiltOutput, source: Input) -> bool:
    """Return True if the class axis of an output follows the rows and columns, as in Keras."""
    return built.view is not None and _is_last(built.view, source)


def _is_last(view: View, source: Input) -> bool:
    if not isinstance(source, ImageInput) or len(view.shape) != 3:
        return False
    fits = [
        source.height * columns == source.width * rows and rows <= source.height <= COARSEST * rows
        for rows, columns in (view.shape[:2], view.shape[1:])
    ]
    return fits == [True, False]


def _planes(view: View, source: Input) -> View:
    """Return a view of the scores with the axes (classes, rows, columns)."""
    return view.permuted((2, 0, 1)) if _is_last(view, source) else view


def _before_squeezing(importer: Importer, view: View) -> View:
    """Return the scores before a final softmax over the channels or a final sigmoid.

    The largest score remains the largest, and rounding creates no ties.
    """
    layer = importer.builder.layers.get(view.layer)
    is_over_channels = isinstance(layer, ChannelSoftmax) and layer.length == importer.builder.shapes[view.layer][0]
    if layer is not None and (is_over_channels or (isinstance(layer, Activation) and layer.activation in SIGMOIDS)):
        return dataclasses.replace(view, layer=layer.inputs[0])
    return view

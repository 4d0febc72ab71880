"""The kinds of layer by the names that files have for them, those of schema 1 among them."""

from __future__ import annotations

from typing import Any

from .activation import Activation, PRelu
from .arrange import ChannelShuffle, ChannelSlice, Concat, Flatten, Pad, Reshape, Transpose
from .convolution import Conv2d, Dense
from .elementwise import Affine, Combine
from .json_fields import fields_of, typed
from .layer import Layer
from .normalize import GroupNorm, LayerNorm, LocalResponseNorm, Softmax
from .pooling import Pool

LAYER_KINDS: dict[str, type[Layer]] = {
    kind.kind: kind
    for kind in (
        Conv2d,
        Dense,
        Pool,
        Flatten,
        Softmax,
        Activation,
        PRelu,
        Combine,
        Affine,
        Concat,
        ChannelSlice,
        ChannelShuffle,
        Reshape,
        Transpose,
        Pad,
        LocalResponseNorm,
        LayerNorm,
        GroupNorm,
    )
}


def from_schema_1(where: str, layer: Any) -> Any:
    """A layer of schema 1 as one of schema 2: there, kernels and paddings were single numbers."""
    kind = layer.get("kind") if isinstance(layer, dict) else None
    if kind == "conv2d":
        allowed = ("kind", "name", "in_channels", "out_channels", "kernel_size", "padding", "pool_size", "activation")
        fields = dict(fields_of(where, layer, allowed, ("padding", "pool_size", "activation")))
        fields["kernel_size"] = [typed(where, "kernel_size", fields["kernel_size"], int)] * 2
        fields["padding"] = [typed(where, "padding", fields.get("padding", 0), int)] * 4
        return fields
    if kind == "average_pool":
        fields = fields_of(where, layer, ("kind", "name", "window_height", "window_width"))
        window = [fields["window_height"], fields["window_width"]]
        return {"kind": "pool", "name": fields["name"], "method": "average", "window": window, "stride": window}
    return layer

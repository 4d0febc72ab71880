"""Convert layers from schema 1, in which networks were sequences, and kernel sizes and paddings were single numbers."""

from __future__ import annotations

from typing import Any

from .json_fields import fields_of, typed


def from_schema_1(where: str, layer: Any) -> Any:
    """Convert the JSON object of a layer from schema 1 to schema 2."""
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

"""Problems of convolution kernels, given only the relevant fields."""

from typing import Any

from trninfer.kernels.convolution.forms import Form
from trninfer.kernels.convolution.problem import Filters, FilterSource, Finish, Images, Movement, Problem, output_extent
from trninfer.kernels.tiling.packing import taps_in_partitions
from trninfer.simulator.machine.chip import PARTITIONS


def least_sides(
    kernel: tuple[int, int],
    stride: tuple[int, int],
    dilation: tuple[int, int],
    padding: tuple[int, int, int, int],
    pool_size: int = 1,
) -> tuple[int, int]:
    """Return the lowest height and width of an image that a filter fits in, once for each pooled output."""
    reach = [(size - 1) * apart + 1 + (pool_size - 1) * step for size, apart, step in zip(kernel, dilation, stride)]
    return max(1, reach[0] - padding[0] - padding[2]), max(1, reach[1] - padding[1] - padding[3])


def problem(**fields: Any) -> Problem:
    """Return a convolution with the given fields; other fields are derived or irrelevant."""
    plain = {"batch": 1, "stride": (1, 1), "dilation": (1, 1), "padding": (0, 0, 0, 0), "pool_size": 1}
    plain |= {"form": Form.DIRECT, "item_bytes": 4, "packed": False, "activation": "identity", "parameters": ()}
    fields = {**plain, **fields}
    top, left, bottom, right = fields["padding"]
    rows, columns = (
        output_extent(size, *(fields[name][axis] for name in ("kernel", "stride", "dilation")), zeros)
        for axis, (size, zeros) in enumerate(((fields["height"], top + bottom), (fields["width"], left + right)))
    )
    pool_size = fields["pool_size"]
    source = FilterSource.PACKED if fields["packed"] else FilterSource.FRAMEWORK
    if fields.get("from_host"):
        source = FilterSource.NETWORK
    fields.setdefault("taps", taps_in_partitions(fields["in_channels"], fields["kernel"], PARTITIONS))
    return Problem(
        Images(*(fields[name] for name in ("batch", "height", "width", "item_bytes")), fields.get("in_planes", False)),
        Filters(*(fields[name] for name in ("in_channels", "out_channels", "kernel", "taps")), source),
        Movement(fields["stride"], fields["dilation"], fields["padding"]),
        Finish(pool_size, fields["activation"], fields["parameters"]),
        (rows // pool_size * pool_size, columns // pool_size * pool_size),
        fields["form"],
    )

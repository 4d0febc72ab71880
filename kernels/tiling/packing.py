"""The geometry of packed convolution filters, which the host shares with the kernels.

The module is pure arithmetic and does not import `nki`, because the host packs weights before a backend is chosen.
`partitions` is the number of partitions of the chip: kernels pass `nl.tile_size.pmax`, and the host passes the number
of partitions of its target.

The contraction is along the partition axis. If there are fewer input channels than partitions, adjacent filter taps
share this axis: a block of partitions contains the channels shifted by one tap, so that one matmul contracts over
several taps. Blocks that would fill less than half of the partitions are spread over all of them, with zeros in
between. Each DMA engine serves eight partitions (nki-dma-overview), so adjacent blocks would be loaded through only a
few of the sixteen engines. Moreover, the Tensor Engine's clock stays low while half of its rows are idle.

Channel groups also share the axis: the filters of as many groups as fit form the diagonal blocks of one matrix, called
a section. Sections are convolved separately.
"""

from __future__ import annotations

from dataclasses import dataclass

# Bytes of an SBUF partition that nki-library reserves for the identity matrix of transposes issued by the compiler.
IDENTITY_BYTES = 256


def ceil_div(a: int, b: int) -> int:
    """Return the quotient of two positive integers, rounded up."""
    return (a + b - 1) // b


def matmul_passes(item_bytes: int) -> int:
    """Return the number of Tensor Engine passes per matmul column: four in float32."""
    return 4 if item_bytes == 4 else 1


def round_up(a: int, b: int) -> int:
    """Return the smallest multiple of b that is at least a."""
    return ceil_div(a, b) * b


def tile_sizes(extent: int, most: int) -> list[int]:
    """Return the sizes of the tiles that cover an extent.

    Each tile has size `most`, except that the last may be smaller.
    """
    return [min(most, extent - start) for start in range(0, extent, most)]


@dataclass(frozen=True)
class Taps:
    """Filter taps that share the partition axis: `rows` x `columns` blocks that start `stride` partitions apart."""

    rows: int
    columns: int
    stride: int

    @property
    def count(self) -> int:
        """Number of blocks."""
        return self.rows * self.columns

    def used_partitions(self, channels: int) -> int:
        """Return the number of partitions from the first block to the end of the last block, with `channels` channels
        per block."""
        return (self.count - 1) * self.stride + channels


@dataclass(frozen=True)
class FilterStep:
    """One matmul of a filter for one tile of input channels, with `taps` taps, the first of which is (row, column)."""

    row: int
    column: int
    taps: int


@dataclass(frozen=True)
class Section:
    """The channels of whole groups that share one block-diagonal matrix."""

    first_in: int
    channels_in: int
    first_out: int
    channels_out: int


@dataclass(frozen=True)
class PackedLayout:
    """The layout of packed weights: each section has `rows` rows, and `steps` columns for each output channel."""

    taps: Taps
    steps: int
    sections: tuple[Section, ...]
    rows: int


def taps_in_partitions(channels: int, kernel: tuple[int, int], partitions: int) -> Taps:
    """Return the taps of a filter of size `kernel` (rows, columns) that share the partition axis.

    The result is the whole filter if channels * taps fit, otherwise as many filter rows as fit, divided evenly, or a
    single tap.
    """
    kernel_rows, kernel_columns = kernel
    if channels * kernel_rows * kernel_columns <= partitions:
        rows, columns = kernel_rows, kernel_columns
    else:
        fitting = min(kernel_rows, max(1, partitions // channels))
        rows, columns = ceil_div(kernel_rows, ceil_div(kernel_rows, fitting)), 1
    taps = rows * columns
    if columns > 1 or (taps > 1 and 2 * taps * channels <= partitions):
        return Taps(rows, columns, partitions // taps)
    return Taps(rows, columns, channels)


def copies_in_partitions(channels: int, kernel_rows: int, partitions: int) -> Taps:
    """Return `taps_in_partitions` for filter rows only.

    Each block starts at a multiple of a quarter of the partitions, so that engines can write it.
    """
    quarter = partitions // 4
    stride = quarter if channels <= quarter else 2 * quarter
    fitting = min(kernel_rows, partitions // stride) if channels <= 2 * quarter else 1
    rows = ceil_div(kernel_rows, ceil_div(kernel_rows, fitting))
    return Taps(rows, 1, stride) if rows > 1 else Taps(1, 1, channels)


def filter_steps(kernel: tuple[int, int], taps: Taps) -> list[FilterStep]:
    """Return the matmuls of a filter of size `kernel` (rows, columns) for one tile of input channels."""
    return [
        FilterStep(row, column, min(taps.rows, kernel[0] - row) * taps.columns)
        for row in range(0, kernel[0], taps.rows)
        for column in range(0, kernel[1], taps.columns)
    ]


def groups_in_section(in_channels: int, out_channels: int, groups: int, partitions: int) -> int:
    """Return the number of channel groups that fit in one block-diagonal matrix."""
    most = max(in_channels, out_channels) // groups
    return max(1, min(groups, partitions // most))


def conv2d_sections(in_channels: int, out_channels: int, groups: int, together: int) -> tuple[Section, ...]:
    """Return sections of `together` groups each; the last section may have fewer.

    Without groups, there is one section.
    """
    each_in = in_channels // groups
    each_out = out_channels // groups
    sections = []
    for first in range(0, groups, together):
        count = min(together, groups - first)
        sections.append(Section(first * each_in, count * each_in, first * each_out, count * each_out))
    return tuple(sections)


def output_blocks(sections: tuple[Section, ...], partitions: int) -> list[tuple[int, int]]:
    """Return (first output channel, channels) of blocks of at most `partitions` channels that do not cross sections."""
    return [
        (section.first_out + first, size)
        for section in sections
        for first, size in zip(
            range(0, section.channels_out, partitions), tile_sizes(section.channels_out, partitions), strict=True
        )
    ]


def packed_layout(
    in_channels: int, out_channels: int, kernel: tuple[int, int], groups: int, partitions: int
) -> PackedLayout:
    """Return the layout of packed weights. Without groups, only `sections` depends on `out_channels`."""
    together = groups_in_section(in_channels, out_channels, groups, partitions) if groups > 1 else 1
    channels = in_channels // groups * together
    taps = taps_in_partitions(channels, kernel, partitions)
    sections = conv2d_sections(in_channels, out_channels, groups, together)
    return PackedLayout(taps, len(filter_steps(kernel, taps)), sections, taps.used_partitions(channels))

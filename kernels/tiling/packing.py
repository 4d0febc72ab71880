"""How a convolution's filters share the Tensor Engine: the geometry of packed weights, for the host and for kernels.

Plain arithmetic in the Python subset of NKI kernels, and no import of `nki`: `models/layout.py` packs weights by it
before any backend is chosen, `convolution/plan.py` reads them by it.

The partition axis holds the contraction. Where there are fewer than 128 input channels, neighbouring filter taps share
it: a block of partitions holds the channels shifted by one tap, so that one matmul contracts over several taps. Blocks
that would fill less than half of the partitions are spread over all of them, with zeros between: a DMA engine serves
eight partitions (nki-dma-overview), so that blocks side by side would load through a few of the sixteen, and the Tensor
Engine's clock stays low while half of its rows idle.

Groups of channels share it too: the filters of as many groups as fit stand on the diagonal of one matrix, zeros beside
them, and the matrix is a convolution of its own, a section.
"""

Triple = tuple[int, int, int]
Section = tuple[int, int, int, int]  # first input channel, channels, first output channel, channels

PARTITIONS = 128  # lanes of every on-chip memory, rows and columns of the Tensor Engine (nl.tile_size.pmax)
IDENTITY_BYTES = (
    256  # of a partition of SBUF, which nki-library leaves to the identity of the compiler's own transposes
)

POOL_ELEMENTS = 2048  # of a partition that a pool in SBUF reads at a time: some 2 us of the Vector Engine

NORM_PIXELS = 512  # a PSUM bank (nl.tile_size.psum_fmax), and a matmul's columns
GROUP_NORM_PIXELS = 4096  # of a channel at once: 16 KiB of a partition in float32
NORM_ELEMENTS = (
    6144  # of a partition, of all channels' tiles: 24 KiB, so that some four forms of them are in SBUF at once
)


def ceil_div(a: int, b: int) -> int:
    """The quotient of two positive integers, rounded up."""
    return (a + b - 1) // b


def round_up(a: int, b: int) -> int:
    """The smallest multiple of b that is at least a."""
    return ceil_div(a, b) * b


def norm_block(tiles: int) -> int:
    """Pixels, of all images, that layer norm takes at a time of so many tiles of channels: a PSUM bank, or fewer."""
    return max(1, min(NORM_PIXELS, NORM_ELEMENTS // tiles))


def pool_band(line: int, reach: int, stride: int) -> int:
    """Rows of outputs that a pool in SBUF computes at a time, while the layer before it computes more.

    `line`: elements of a partition in a row of the input, of all images; a window spans `reach` of them.
    """
    return max(1, (POOL_ELEMENTS // line - reach) // stride + 1)


def taps_in_partitions(channels: int, kernel_rows: int, kernel_columns: int) -> Triple:
    """(filter rows, filter columns, stride) of the taps that share the partition axis.

    The whole filter where channels * taps <= 128, else as many filter rows as fit, evenly divided, else one tap.
    `stride` is partitions from the block of one tap to that of the next.
    """
    if channels * kernel_rows * kernel_columns <= PARTITIONS:
        rows, columns = kernel_rows, kernel_columns
    else:
        fitting = min(kernel_rows, max(1, PARTITIONS // channels))
        rows, columns = ceil_div(kernel_rows, ceil_div(kernel_rows, fitting)), 1
    taps = rows * columns
    if columns > 1 or (taps > 1 and 2 * taps * channels <= PARTITIONS):
        return rows, columns, PARTITIONS // taps
    return rows, columns, channels


def copies_in_partitions(channels: int, kernel_rows: int) -> Triple:
    """`taps_in_partitions` of filter rows alone where the engines copy what lies in SBUF: they write from partitions 0,
    32, 64 and 96 on."""
    stride = 32 if channels <= 32 else 64
    fitting = min(kernel_rows, PARTITIONS // stride) if channels <= 64 else 1
    rows = ceil_div(kernel_rows, ceil_div(kernel_rows, fitting))
    return (rows, 1, stride) if rows > 1 else (1, 1, channels)


def filter_steps(kernel_rows: int, kernel_columns: int, tap_rows: int, tap_columns: int) -> list[Triple]:
    """(filter row, filter column, taps) of each matmul that a filter takes for one tile of input channels."""
    steps = []
    for row in range(0, kernel_rows, tap_rows):
        for column in range(0, kernel_columns, tap_columns):
            steps.append((row, column, min(tap_rows, kernel_rows - row) * tap_columns))
    return steps


def packed_rows(channels: int, tap_rows: int, tap_columns: int, tap_stride: int) -> int:
    """Rows of packed weights: the partitions from the first block of taps to the end of the last."""
    return (tap_rows * tap_columns - 1) * tap_stride + channels


def groups_in_section(in_channels: int, out_channels: int, groups: int) -> int:
    """How many groups of channels one block-diagonal matrix holds: as many as 128 of its rows and columns take."""
    most = max(in_channels, out_channels) // groups
    return max(1, min(groups, PARTITIONS // most))


def conv2d_sections(in_channels: int, out_channels: int, groups: int, together: int) -> list[Section]:
    """(input channel, channels, output channel, channels) of each section of `together` groups; the last may be less.

    A convolution of one group is one section.
    """
    sections = []
    each_in = in_channels // groups
    each_out = out_channels // groups
    for first in range(0, groups, together):
        count = min(together, groups - first)
        sections.append((first * each_in, count * each_in, first * each_out, count * each_out))
    return sections


def output_blocks(sections: list[Section]) -> list[tuple[int, int]]:
    """(output channel, channels) blocks of at most 128, none of which crosses the end of a section."""
    blocks = []
    for section in sections:
        end = section[2] + section[3]
        for first in range(section[2], end, PARTITIONS):
            blocks.append((first, min(PARTITIONS, end - first)))
    return blocks


def packed_layout(
    in_channels: int, out_channels: int, kernel: tuple[int, int], groups: int
) -> tuple[Triple, int, list[Section], int]:
    """(taps, steps, sections, rows) of packed weights.

    `kernel` is (rows, columns), `taps` as `taps_in_partitions` gives it, `steps` how many matmuls a filter takes. Every
    section has `rows` rows and, for each of its output channels, `steps` columns. Without groups nothing but `sections`
    depends on `out_channels`.
    """
    together = groups_in_section(in_channels, out_channels, groups) if groups > 1 else 1
    channels = in_channels // groups * together
    taps = taps_in_partitions(channels, kernel[0], kernel[1])
    steps = len(filter_steps(kernel[0], kernel[1], taps[0], taps[1]))
    sections = conv2d_sections(in_channels, out_channels, groups, together)
    return taps, steps, sections, packed_rows(channels, taps[0], taps[1], taps[2])

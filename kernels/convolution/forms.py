"""The forms in which 3x3 filters are multiplied, and which of them is the quickest.

direct    nine matmuls of all outputs
pairs     12 of half as many columns: two thirds (pairs.py)
squares   16 of a quarter: four ninths (squares.py)

Minimal filtering saves matmuls and costs additions, on the input, once for all output channels, and on the sums, for
each tile of them. The Tensor Engine hides those of the other engines where channels are many, more easily in float32,
of which a column takes four cycles. So the forms are compared by the engine that takes longest in each.

Its errors are larger: in float32, 1.3 times (pairs) and 1.7 times (squares) those of the direct form, in 16 bits, to
which combinations are rounded, 1.9 times (pairs). Squares are not taken there: their errors would be two and a half
times as large, and the Vector Engine would take longer than the Tensor Engine saves (docs/convolutions.md). In float16
the sum of two inputs must be in range.
"""

from ..tiling.packing import ceil_div, round_up

QUICKEST = "quickest"
DIRECT = "direct"
PAIRS = "pairs"
SQUARES = "squares"
FORMS = (QUICKEST, DIRECT, PAIRS, SQUARES)

# Nanoseconds, of trn2: NeuronCore-v3's clocks and what instructions take beside their elements. Only how the engines
# compare matters here, and in that NeuronCore-v3 and v4 are alike.
TENSOR_NS = 1 / 2.4  # a column, of four in float32
VECTOR_NS = 1 / 0.96  # an element a partition
GPSIMD_NS = 2 / 1.2  # one of a sum of two tiles
SCALAR_NS = 1 / 1.2
VECTOR_GAP_NS = 65
DESCRIPTOR_NS = 14 / 16  # of a short row, which a DMA loads by itself where columns are padded; 16 engines share them
LEAST_COLUMNS = 64  # of a matmul: loading 16-bit weights takes as long,
LEAST_COLUMNS_FLOAT32 = 128  # and of float32
PAIRS_WEIGHTS_NS = 1400  # of the Vector Engine, to combine the filters of a tile of input and one of output channels
SQUARES_WEIGHTS_NS = 3200
START_NS = {DIRECT: 0, PAIRS: 5500, SQUARES: 8000}  # until the first filters and inputs are combined
GAIN = 1.03  # below which a form is not worth its errors
RESERVED_BYTES = 8 * 1024  # of a partition of SBUF, for biases and pooling scratch, beside a grouped input


def forms(problem):
    """The forms that can take a convolution, the direct one first.

    The others take 3x3 filters that move by one, of which no matmul covers whole rows of taps.
    """
    found = [DIRECT]
    plain = max(problem.stride) == 1 and max(problem.dilation) == 1 and problem.kernel == (3, 3)
    if not plain or problem.taps[1] > 1 or problem.taps[0] == 3:
        return found
    taken = worthwhile(problem.gen2, problem.item_bytes)
    whole_row = ceil_div(problem.out_columns, 2)
    for form in (PAIRS, SQUARES):
        fits = whole_row <= most_columns(form) and (form == PAIRS or problem.taps[0] == 1)
        if fits and (problem.form == form or form in taken):
            found.append(form)
    return found


def worthwhile(gen2: bool, item_bytes: int) -> tuple[str, ...]:
    """The forms beside the direct one that are taken unasked: of small enough errors, and quick on that NeuronCore.

    NeuronCore-v2 takes two cycles for a sum of two tiles, and its Vector Engine shares ports with the others.
    """
    if item_bytes == 2:
        return () if gen2 else (PAIRS,)
    return (PAIRS,) if gen2 else (PAIRS, SQUARES)


def matrices(form: str, steps: int) -> int:
    """Stationary matrices of a filter that takes so many matmuls in the direct form."""
    if form == PAIRS:
        return steps // 3 * 4
    return 16 if form == SQUARES else steps


def most_columns(form: str) -> int:
    """Columns of a matmul: what a PSUM bank holds, of which squares take two at a time."""
    return 256 if form == SQUARES else 512


def matmul_columns(form: str, rows: int, columns: int) -> int:
    """Columns of the matmuls that make a block of outputs."""
    if form == PAIRS:
        return rows * ceil_div(columns, 2)
    if form == SQUARES:
        return ceil_div(rows, 2) * ceil_div(columns, 2)
    return rows * columns


def rows_together(form: str, pool_size: int) -> int:
    """Output rows that are computed together."""
    return 2 if form == SQUARES else pool_size


def input_room(form: str) -> int:
    """SBUF that the input takes with its combinations, in times of its own."""
    if form == PAIRS:
        return 3
    return 6 if form == SQUARES else 1  # of the combined rows of squares there is one copy, of all else two


def piece_of(form: str, pool_size: int, rows: int, columns: int, rows_fitting: int) -> tuple[int, int, int]:
    """(images, rows, columns) of the most that a PSUM tile takes of outputs of so many rows and columns, evenly cut.

    Images are 0 where one does not fit a bank. `rows_fitting`: rows that SBUF has at a time.
    """
    most = most_columns(form)
    unit = rows_together(form, pool_size)
    wide = columns
    if form == DIRECT:
        wide = round_up(ceil_div(columns, ceil_div(columns, most // unit)), unit)
    high = min(rows_fitting, most // matmul_columns(form, unit, wide) * unit)
    high = round_up(ceil_div(rows, ceil_div(rows, high)), unit)
    return most // matmul_columns(form, rows, wide), high, wide


def matmuls_ns(item_bytes: int, columns: float, count: int = 1, outputs: int = LEAST_COLUMNS_FLOAT32) -> float:
    """Nanoseconds of the Tensor Engine for `count` matmuls of so many columns in all, whose filters give `outputs`
    channels: loading those takes as long as the least columns."""
    least = min(LEAST_COLUMNS_FLOAT32, outputs) if item_bytes == 4 else LEAST_COLUMNS
    return max(count * least, columns) * (4 if item_bytes == 4 else 1) * TENSOR_NS


def engines_ns(
    form: str,
    item_bytes: int,
    outputs: tuple[int, int, int],
    piece: tuple[int, int, int],
    work: tuple[int, int, int, int],
    from_host: bool,
) -> tuple[float, float, float, float]:
    """Nanoseconds that the Tensor, Vector, GpSimd and Scalar Engine take beside the combining of filters.

    `outputs`: (images, rows, columns), in pieces of so many; `work`: (tiles of input channels, tiles of output
    channels, matmuls of a filter in the direct form, pool size); `from_host`: filters come combined (pairs.py).
    """
    inputs, output_tiles, steps, pool_size = work
    images = max(1, min(outputs[0], piece[0]))
    pieces = ceil_div(outputs[0], images)
    if images == 1:
        pieces = pieces * ceil_div(outputs[1], piece[1]) * ceil_div(outputs[2], piece[2])
    columns = matmul_columns(form, piece[1], piece[2]) * images
    tensor = inputs * output_tiles * matrices(form, steps) * pieces * matmuls_ns(item_bytes, columns)
    if form == DIRECT:
        return tensor, 0.0, 0.0, 0.0
    pooled = pool_size == 2
    if form == PAIRS:
        narrow = item_bytes == 2
        elements = (2 if narrow and from_host else 3) * inputs + (2.5 if pooled else 2) * output_tiles
        vector = elements * columns * VECTOR_NS + (3 * inputs + 3 * output_tiles) * VECTOR_GAP_NS
        shared = 1 if not narrow else 0 if from_host else 2
        gpsimd = (shared * inputs + (3 if pooled else 2) * output_tiles) * columns * GPSIMD_NS
        scalar = ((2 if narrow else 0) * inputs + (2.5 if pooled else 4) * output_tiles) * columns * SCALAR_NS
    else:
        elements = 18 * inputs + (18 if pooled else 14) * output_tiles
        vector = elements * columns * VECTOR_NS + (6 * inputs + 7 * output_tiles) * VECTOR_GAP_NS
        gpsimd = (6 * inputs + 10 * output_tiles) * columns * GPSIMD_NS
        scalar = (8 + (1 if pooled else 4)) * output_tiles * columns * SCALAR_NS
    return tensor, pieces * vector, pieces * gpsimd, pieces * scalar


def estimate(plan):
    """Nanoseconds that a convolution takes by the busiest engine, and that its first combinations take."""
    problem, form, psum = plan.problem, plan.form, plan.psum
    inputs, output_tiles = len(plan.channel_tiles), len(plan.weights.out_tiles)
    outputs = (problem.batch, problem.out_rows, problem.out_columns)
    piece = (psum.images, psum.rows, psum.columns)
    work = (inputs, output_tiles, len(plan.steps), problem.pool_size)
    tensor, vector, gpsimd, scalar = engines_ns(form, problem.item_bytes, outputs, piece, work, problem.from_host)
    if form == DIRECT:
        return tensor
    if problem.padding[1] + problem.padding[3] + problem.out_columns % 2 > 0:
        tensor = max(tensor, problem.batch * problem.in_channels * problem.height * DESCRIPTOR_NS)
    vector += inputs * output_tiles * (SQUARES_WEIGHTS_NS if form == SQUARES else PAIRS_WEIGHTS_NS)
    return max((tensor, vector, gpsimd, scalar)) + START_NS[form]


def combined_elements(form: str, rows: int, columns: int, filter_rows: int) -> int:
    """Elements of a partition that the combinations of one tile of input channels take, for so many output rows."""
    if form == PAIRS:
        return 4 * (rows + filter_rows - 1) * ceil_div(columns, 2)
    squares = ceil_div(rows, 2)
    return 16 * squares * ceil_div(columns, 2) + 4 * squares * (columns + 3)  # rows are combined first


def rows_combined(form: str, rows: int, columns: int, filter_rows: int, pool_size: int, elements: int) -> int:
    """Output rows whose combinations fit so many elements of a partition: as many as there are, or at least a few."""
    unit = rows_together(form, pool_size)
    fitting = round_up(rows, unit)
    while fitting > unit and combined_elements(form, fitting, columns, filter_rows) > elements:
        fitting -= unit
    return min(rows, fitting)

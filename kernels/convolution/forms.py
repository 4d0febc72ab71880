"""The forms in which 3x3 filters are multiplied, and which of them is the quickest.

direct    nine matmuls of all outputs
pairs     12 of half as many columns: two thirds (pairs.py)
squares   16 of a quarter: four ninths (squares.py)

Minimal filtering saves matmuls and costs additions, on the input, once for all output channels, and on the sums, for
each tile of them. The Tensor Engine hides those of the other engines where channels are many, more easily in float32,
of which a column takes four cycles. So the forms are compared by the engine that takes longest in each.

Its errors are larger: in float32, 1.3 times (pairs) and 1.7 times (squares) those of the direct form, in 16 bits, to
which combinations are rounded, up to twice (pairs). Squares are not taken there: their errors would be two and a half
times as large, and the Vector Engine would take longer than the Tensor Engine saves (docs/convolutions.md). In float16
the sum of two inputs must be in range.
"""

from ..tiling.packing import ceil_div

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
VECTOR_GAP_NS = 65
DESCRIPTOR_NS = 14 / 16  # of a short row, which a DMA loads by itself where columns are padded; 16 engines share them
LEAST_COLUMNS = 64  # of a matmul: loading 16-bit weights takes as long,
LEAST_COLUMNS_FLOAT32 = 128  # and of float32
PAIRS_WEIGHTS_NS = 1400  # of the Vector Engine, to combine the filters of a tile of input and one of output channels
SQUARES_WEIGHTS_NS = 3200
PAIRS_START_NS = 5500  # until the first filters and inputs are combined
SQUARES_START_NS = 8000
GAIN = 1.03  # below which a form is not worth its errors


def forms(problem):
    """The forms that can take a convolution, the direct one first.

    The others take 3x3 filters that move by one, of which no matmul covers whole rows of taps. NeuronCore-v2 takes two
    cycles for a sum of two tiles, and its Vector Engine shares ports with the others: there pairs pay in float32 alone.
    """
    found = [DIRECT]
    plain = max(problem.stride) == 1 and max(problem.dilation) == 1 and problem.kernel == (3, 3)
    if not plain or problem.taps[1] > 1 or problem.taps[0] == 3:
        return found
    old = problem.gen2
    narrow = problem.item_bytes == 2
    asked = problem.form
    whole_row = ceil_div(problem.out_columns, 2)
    if whole_row <= most_columns(PAIRS) and (asked == PAIRS or not (old and narrow)):
        found.append(PAIRS)
    if whole_row <= most_columns(SQUARES) and problem.taps[0] == 1 and (asked == SQUARES or not (old or narrow)):
        found.append(SQUARES)
    return found


def matrices(form, steps):
    """Stationary matrices of a filter that takes so many matmuls in the direct form."""
    if form == PAIRS:
        return steps // 3 * 4
    return 16 if form == SQUARES else steps


def most_columns(form):
    """Columns of a matmul: what a PSUM bank holds, of which squares take two at a time."""
    return 256 if form == SQUARES else 512


def matmul_columns(form, rows, columns):
    """Columns of the matmuls that make a block of outputs."""
    if form == PAIRS:
        return rows * ceil_div(columns, 2)
    if form == SQUARES:
        return ceil_div(rows, 2) * ceil_div(columns, 2)
    return rows * columns


def rows_together(form, pool_size):
    """Output rows that are computed together."""
    return 2 if form == SQUARES else pool_size


def input_room(form):
    """SBUF that the input takes with its combinations, in times of its own."""
    if form == PAIRS:
        return 3
    return 6 if form == SQUARES else 1  # of the combined rows of squares there is one copy, of all else two


def estimate(plan):
    """Nanoseconds that a convolution takes by the busiest engine, and that its first combinations take."""
    problem, form, psum = plan.problem, plan.form, plan.psum
    inputs, outputs = len(plan.channel_tiles), len(plan.weights.out_tiles)
    pieces = ceil_div(problem.out_rows, psum.rows) * ceil_div(problem.out_columns, psum.columns)
    if psum.images > 1:
        pieces = 1
    pieces = pieces * ceil_div(problem.batch, psum.images)
    columns = matmul_columns(form, psum.rows, psum.columns) * psum.images
    tensor = max(LEAST_COLUMNS, columns) * TENSOR_NS
    if problem.item_bytes == 4:
        tensor = max(LEAST_COLUMNS_FLOAT32, columns) * 4 * TENSOR_NS
    tensor = inputs * outputs * matrices(form, len(plan.steps)) * pieces * tensor
    if form == DIRECT:
        return tensor
    pooled = problem.pool_size == 2
    if problem.padding[1] + problem.padding[3] + problem.out_columns % 2 > 0:
        tensor = max(tensor, problem.batch * problem.in_channels * problem.height * DESCRIPTOR_NS)
    weights = inputs * outputs
    if form == PAIRS:
        elements = 3 * inputs + (4 if pooled else 2) * outputs
        vector = pieces * (elements * columns * VECTOR_NS + (2 * inputs + 3 * outputs) * VECTOR_GAP_NS)
        gpsimd = pieces * (inputs + 2 * outputs) * columns * GPSIMD_NS
        return max((tensor, vector + weights * PAIRS_WEIGHTS_NS, gpsimd)) + PAIRS_START_NS
    elements = 18 * inputs + (18 if pooled else 14) * outputs
    vector = pieces * (elements * columns * VECTOR_NS + (6 * inputs + 7 * outputs) * VECTOR_GAP_NS)
    gpsimd = pieces * (6 * inputs + 10 * outputs) * columns * GPSIMD_NS
    return max((tensor, vector + weights * SQUARES_WEIGHTS_NS, gpsimd)) + SQUARES_START_NS

"""Tile a convolution whose input and packed weights are already in SBUF."""

from ..tiling.tiles import Tile, tiles
from .forms import Form, combined_elements, rows_combined
from .plan import Conv2dPlan, psum_block, reach_of, resident_weights, row_groups
from .problem import Block, steps_of


def plan_resident(problem, block, channels, *, keeps_rows, combined_bytes, by_rows=False):
    """Return the plan of a convolution whose packed weights and padded input are in SBUF.

    `block` is the number of output channels per tile, and `channels` contains the number of channels in each input
    tile. If `keeps_rows`, the input has all rows that the previous operation wrote, including those that no tap reads.
    `combined_bytes` limits the bytes of a partition that the combinations of minimal filtering occupy at any time. If
    `by_rows`, all outputs of a group of rows are computed before the outputs of the next group.
    """
    form = problem.form
    steps = steps_of(problem)
    ends = [sum(channels[: t + 1]) for t in range(len(channels))]
    channel_tiles = [Tile(t, end - size, size, end) for t, (size, end) in enumerate(zip(channels, ends))]
    weights = resident_weights(problem, block, steps)
    rows, columns = problem.output
    elements = combined_bytes // (len(channels) * problem.images.item_bytes)
    fitting = rows
    if form is not Form.DIRECT:
        fitting = rows_combined(form, problem.output, problem.filters.kernel[0], problem.finish.pool_size, elements)
    psum = psum_block(problem, columns, fitting, form)
    psum.images = max(1, min(problem.images.count, psum.images))
    groups = [Block(0, problem.images.count, 0, rows, 0, columns)]
    if by_rows and form is Form.DIRECT and psum.rows < rows:
        groups = row_groups(problem, columns, psum.rows, 1, 1)
    elif fitting < rows:
        groups = row_groups(problem, columns, psum.rows, 1, fitting // psum.rows)
    elif form is not Form.DIRECT:
        images = elements // combined_elements(form, problem.output, problem.filters.kernel[0])
        groups = [
            Block(part.start, part.size, 0, rows, 0, columns)
            for part in tiles(problem.images.count, max(psum.images, images))
        ]
    reach = reach_of(problem, steps, form, True)
    if keeps_rows:
        reach.row_pitch, reach.row_step = 1, problem.movement.stride[0]
    return Conv2dPlan(
        problem=problem,
        form=form,
        channel_tiles=channel_tiles,
        steps=steps,
        reach=reach,
        weights=weights,
        psum=psum,
        groups=groups,
    )

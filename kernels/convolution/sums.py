"""The inner part of a convolution, which accesses only SBUF and PSUM: the sums of an output tile, pooling, bias and
activation.

    for piece of up to 512 pixels:              # a PSUM bank
        for tile of up to 128 input channels:
            sums = accumulate(weights[tile], inputs[tile])      # a matmul for each step
        result[piece] = finish(sums)            # pool, scale, bias, activation

Minimal filtering computes its sums in pairs.py and squares.py. With 8-bit values, a matmul contracts over two input
tiles or over two steps of the filter (double_rows.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import nki.isa as nisa
import nki.language as nl

from ..activation_functions import NEVER_DECREASE, activate, apply_bounds, at_least, before_bounds
from ..operation_fields import BOUNDS, with_fields
from ..tiling.packing import ceil_div
from ..tiling.tiles import reshaped, several_columns
from ..tiling.warm_up import psum_tile
from .double_rows import Matmul, can_be_doubled, doubled, matmuls_of, takes_two_planes
from .forms import Form
from .pairs import join_pairs, multiply_pairs
from .plan import input_columns, psum_pieces, rows_of_taps
from .problem import Block
from .squares import multiply_squares
from .weights import units_of, weights_of

QUICK_MATMULS = 2  # the matmuls of a piece with at most this many take no longer than its eviction


@dataclass
class OutputTile:
    """A tile of output channels of a group: a view of SBUF, [channels, images, rows, columns] or, with columns split
    into phases, [channels, images, rows, phases, columns of a phase]."""

    result: nl.NkiTensor
    group: Block
    number: int = 0  # position of the tile in the stream of weights
    pieces: list[Block] | None = None  # pieces of the group, or None to use the pieces of the plan


@dataclass
class Epilogue:
    """The epilogue of a tile of output channels: activation(sums * scale + bias), with float32 columns [channels, 1].

    If there is an `addend` (in SBUF, with the same shape as the result), pooling is not supported. The Vector Engine
    computes activation((sums * before + addend) * after + bias). Alternatively, the Tensor Engine adds, using a
    `diagonal` matrix of the column `inverse`: activation((sums + diagonal @ addend) * scale + bias). A column that is
    None represents ones. `bounds` contains columns that replace the parameters of the activation.
    """

    bias: nl.NkiTensor
    scale: nl.NkiTensor | None = None
    before: nl.NkiTensor | None = None
    after: nl.NkiTensor | None = None
    inverse: nl.NkiTensor | None = None
    diagonal: nl.NkiTensor | None = None
    addend: nl.NkiTensor | None = None
    bounds: tuple[nl.NkiTensor, ...] | None = None

    def parameters(self, problem):
        """Return the parameters of the activation."""
        return problem.finish.parameters if self.bounds is None else self.bounds


def diagonal_of(column, dtype):
    """Return a diagonal matrix in `dtype` from a column [channels, 1]."""
    count = column.shape[0]
    diagonal = nl.ndarray((count, count), dtype=dtype, buffer=nl.sbuf)
    nisa.affine_select(
        dst=diagonal,
        pattern=[[-1, count]],
        channel_multiplier=1,
        on_true_tile=column.broadcast(1, count),
        on_false_value=0.0,
        cmp_op=nl.equal,
    )
    return diagonal


def convolve_tile(output, tiles, weights, epilogue, warm=None):
    """Convolve input tiles in SBUF into a tile of output channels in SBUF.

    output: an `OutputTile`. tiles: for each tile of input channels, the input of the output's group, [taps and
    channels, images, rows, columns]. weights: a stream. epilogue: an `Epilogue`. warm: a PSUM tile of zeros for the
    first sums (warm_up.py).
    """
    plan, result, group = weights.plan, output.result, output.group
    pool_size = plan.problem.finish.pool_size
    pieces = psum_pieces(plan, group) if output.pieces is None else output.pieces
    for n, piece in enumerate(pieces):
        top = piece.row // pool_size
        left = piece.column // pool_size
        other = _piece_of(epilogue.addend, piece, top, left)
        by_matmul = epilogue.diagonal is not None
        count = QUICK_MATMULS + 1
        if plan.form is Form.SQUARES:
            sums = multiply_squares(result.shape[0], units_of(weights, output.number), tiles, piece, warm)
        elif plan.form is Form.PAIRS:
            units = (weights_of(weights, output.number, t) for t in range(len(tiles)))
            sums = multiply_pairs(result.shape[0], units, tiles, plan, piece, warm)
            sums = join_pairs(sums, piece.columns, pool_size == 2 and plan.problem.finish.activation in NEVER_DECREASE)
        else:
            channels = result.shape[0]
            shape = (several_columns(channels, tiles[0].dtype), piece.images * piece.rows, piece.columns)
            sums = psum_tile(shape, warm)
            target = reshaped(sums, (shape[0], piece.images, piece.rows, piece.columns))
            for part in _summed_at_once(plan, group, piece, tiles):
                images = slice(part.image - piece.image, part.image - piece.image + part.images)
                count = _sum(target[:, images], weights, output, tiles, part, warm)
                if by_matmul:
                    nisa.nc_matmul(
                        dst=target[0:channels, images],
                        stationary=epilogue.diagonal,
                        moving=other[:, images],
                        accumulate=True,
                    )
            sums = sums[0:channels]
            other = None if by_matmul else other
        warm = None
        part = result[:, piece.image : piece.image + piece.images, top : top + piece.rows // pool_size]
        if len(part.shape) == 5:
            phases = part.shape[3]
            target = part[:, :, :, :, left // phases : (left + piece.columns) // phases]
            sums = _in_phases(sums, target)
        else:
            target = part[:, :, :, left : left + piece.columns // pool_size]
        quick = other is None and pool_size == 1 and count <= QUICK_MATMULS
        quick = quick and epilogue.bias.dtype == nl.float32  # the Vector Engine reads columns only in float32
        quick = quick and (epilogue.addend is None or epilogue.scale is not None)
        if quick and _is_for_vector_engine(plan.problem.finish.activation, epilogue, group.row // plan.psum.rows + n):
            _finish_on_vector_engine(target, reshaped(sums, target.shape), epilogue, plan.problem)
        elif other is None:
            _finish(target, sums, epilogue, plan.problem)
        else:
            _finish_sum(target, sums, epilogue, other, plan.problem)


def _summed_at_once(plan, group, piece, tiles):
    """Split a piece into parts that are summed sequentially.

    If a matmul over two planes cannot step through several images, each part is a single image.
    """
    if piece.images == 1 or not plan.reach.pads_columns or not takes_two_planes(tiles[0].dtype):
        return [piece]
    index = _window(plan, group, piece, Matmul(tiles[0], 0, 0))[1]
    if can_be_doubled(tiles[0][index]):
        return [piece]
    return [with_fields(piece, image=image, images=1) for image in range(piece.image, piece.image + piece.images)]


def _sum(sums, weights, output, tiles, piece, warm):
    """Compute the sums of a piece [channels, images, rows, columns] in PSUM, and return the number of matmuls."""
    count = 0
    for matmul in matmuls_of(weights, output.number, tiles):
        window = _window(weights.plan, output.group, piece, matmul)
        if window is not None:
            part, index = window
            _accumulate(sums, matmul, tiles[matmul.tile], part, index, count > 0 or warm is not None)
        count += 1
    return count


def _in_phases(sums, target):
    """View sums [channels, rows of all images, columns] in the shape of the target, with columns split into phases:
    [channels, images, rows, phases, columns of a phase]."""
    channels, images, rows, phases, columns = target.shape
    return reshaped(sums, (channels, images, rows, columns, phases)).permute((0, 1, 2, 4, 3))


def _piece_of(added, piece, top, left):
    """Return the addend of a piece that is not pooled, or None if there is no addend."""
    if added is None:
        return None
    rows = added[:, piece.image : piece.image + piece.images, top : top + piece.rows]
    return rows[:, :, :, left : left + piece.columns]


def _window(plan, group, piece, matmul):
    """Return the output columns of a piece to which a matmul contributes (None for all columns), and the index of the
    input that the matmul reads. Return None if the matmul reads only padding."""
    problem = plan.problem
    reach = plan.reach
    stride = problem.movement.stride[1]
    left = input_columns(plan, group)[0]
    first = group.column + piece.column  # first output column
    step = plan.steps[matmul.step]
    tap_rows = rows_of_taps(plan, matmul.tile, step.taps)
    shift = (
        step.right - problem.movement.padding[1]
    )  # column c of the output reads column c * stride + shift of the input
    start = first
    end = first + piece.columns
    if not reach.pads_columns:
        start = max(start, ceil_div(max(0, -shift), stride))
        end = min(end, ceil_div(max(0, problem.images.columns - shift), stride))
    if start >= end:
        return None
    row = piece.row * reach.row_step + step.down
    column = start * stride + shift - left
    index = (
        slice(0, tap_rows),
        slice(piece.image, piece.image + piece.images),
        slice(row, row + (piece.rows - 1) * reach.row_step + 1, reach.row_step),
        slice(column, column + (end - start - 1) * stride + 1, stride),
    )
    return None if end - start == piece.columns else slice(start - first, end - first), index


def _accumulate(sums, matmul, tile, columns, index, adds):
    """Add a matmul to the sums [channels, images, rows, columns] of a piece in PSUM."""
    stationary = matmul.weights[index[0], matmul.step, :]
    if stationary.shape[1] < sums.shape[0]:  # duplicate a single column
        stationary = stationary.broadcast(1, sums.shape[0])
    moving = tile[index]
    target = sums if columns is None else sums[:, :, :, columns]
    if not matmul.is_double:
        nisa.nc_matmul(dst=target, stationary=stationary, moving=moving, accumulate=adds)
        return
    stationary = doubled(stationary, matmul.weights_apart)
    nisa.nc_matmul(
        dst=target,
        stationary=stationary,
        moving=doubled(moving, matmul.inputs_apart),
        accumulate=adds,
        perf_mode=nisa.matmul_perf_mode.double_row,
    )


def _finish(target, sums, epilogue, problem):
    """Pool the sums, scale them, add the bias and apply the activation.

    sums: [channels, rows of all images, columns] in PSUM or SBUF. target: [channels, images, rows, columns] in SBUF.
    """
    name, parameters = problem.finish.activation, epilogue.parameters(problem)
    bias, scale = epilogue.bias, epilogue.scale
    if problem.finish.pool_size == 1:
        activate(target, reshaped(sums, target.shape), name, parameters, bias, scale)
        return
    count, rows, width = sums.shape
    largest = nl.ndarray((count, rows // 2, target.shape[3]), dtype=nl.float32, buffer=nl.sbuf)
    if name in NEVER_DECREASE and width == target.shape[3]:  # pairs of columns are already pooled
        tops, bottoms = sums[:, 0:rows:2], sums[:, 1:rows:2]
        nisa.tensor_tensor(dst=largest, data1=tops, data2=bottoms, op=nl.maximum, engine=nisa.engine.vector)
        activate(target, reshaped(largest, target.shape), name, parameters, bias, scale)
    elif name in NEVER_DECREASE:
        nisa.tensor_reduce(dst=largest, op=nl.maximum, data=_windows(sums), axis=(3, 4))
        activate(target, reshaped(largest, target.shape), name, parameters, bias, scale)
    else:  # if the activation is not monotonic, the largest sum need not have the largest activation
        activated = nl.ndarray((count, rows, width), dtype=nl.float32, buffer=nl.sbuf)
        activate(activated, sums, name, parameters, bias, scale)
        nisa.tensor_reduce(dst=largest, op=nl.maximum, data=_windows(activated), axis=(3, 4))
        nisa.tensor_copy(dst=target, src=reshaped(largest, target.shape), engine=nisa.engine.gpsimd)


def _is_for_vector_engine(activation, epilogue, turn):
    """True if the Vector Engine processes this piece. When matmuls outpace the Scalar Engine, pieces alternate between
    the two engines; if the Vector Engine needs two instructions, it receives fewer pieces."""
    if activation == "at_least" and epilogue.scale is None:
        return True
    if activation in ("clip", *BOUNDS) or (activation == "relu" and epilogue.scale is not None):
        return turn % 3 == 2
    return turn % 2 == 1 and activation in ("relu", "identity")


def _finish_on_vector_engine(target, sums, epilogue, problem):
    name, bias, scale = problem.finish.activation, epilogue.bias, epilogue.scale
    if name == "relu" and scale is None:
        at_least(target, sums, 0.0, bias)
        return
    if name == "identity":
        if scale is None:
            nisa.tensor_scalar(dst=target, data=sums, op0=nl.add, operand0=bias)
        else:
            nisa.tensor_scalar(dst=target, data=sums, op0=nl.multiply, operand0=scale, op1=nl.add, operand1=bias)
        return
    moved = nl.ndarray(target.shape, dtype=before_bounds(target.dtype), buffer=nl.sbuf)
    if scale is not None:
        nisa.tensor_scalar(dst=moved, data=sums, op0=nl.multiply, operand0=scale, op1=nl.add, operand1=bias)
        apply_bounds(target, moved, (0.0,) if name == "relu" else epilogue.parameters(problem))
        return
    low, *high = epilogue.parameters(problem)
    if not high:
        at_least(target, sums, low, bias)
        return
    at_least(moved, sums, low, bias)
    nisa.tensor_scalar(dst=target, data=moved, op0=nl.minimum, operand0=high[0])


def _finish_sum(target, sums, epilogue, added, problem):
    """Add the bias and another tensor, in one instruction if there is no scale. Then apply the activation."""
    name, parameters = problem.finish.activation, epilogue.parameters(problem)
    first = (nl.add, epilogue.bias) if epilogue.before is None else (nl.multiply, epilogue.before)
    is_done = epilogue.before is None and name == "identity"
    total = target if is_done else nl.ndarray(target.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.scalar_tensor_tensor(
        dst=total, data=reshaped(sums, target.shape), op0=first[0], operand0=first[1], op1=nl.add, operand1=added
    )
    if epilogue.before is not None:
        activate(target, total, name, parameters, epilogue.bias, epilogue.after)
    elif not is_done:
        activate(target, total, name, parameters)


def _windows(tile):
    """View [channels, rows, columns] as [channels, rows / 2, columns / 2, 2, 2]."""
    count, rows, columns = tile.shape
    return reshaped(tile, (count, rows // 2, 2, columns // 2, 2)).permute((0, 1, 3, 2, 4))

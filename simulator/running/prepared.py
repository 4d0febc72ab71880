"""Compilation of replays to NumPy calls on arrays that are looked up only once.

Tiles keep their memory between replays, so each step makes the same call on the same views. Steps are not compiled if
they access the launch's arguments (whose arrays belong to the caller), bit patterns, or numbers that are rounded when
stored, or if they would allocate new arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..instructions.checks import broadcast_value, copy_values, shaped
from ..instructions.operators import ActivationFunction, AluOperator
from ..instructions.scalar_engine import activate
from ..instructions.tensor_engine import multiply
from ..instructions.tensor_scalar import apply_in_turn
from ..instructions.vector_engine import elementwise, set_values
from ..machine.dtypes import Array
from ..machine.memory import Storage
from ..tensors.strided import StridedMemory
from .replay import Step, fill, views_of

MAX_PACKED = 1 << 21  # maximum number of elements of the cached copies for BLAS

Calls = list[Callable[[], Any]]


def prepared(steps: Sequence[Step]) -> list[Step]:
    """Return equivalent but faster steps."""
    rooms = _Rooms()
    made: list[Step] = []
    for compute, operands in _limited(steps):
        prepare = _CALLS.get(compute)
        calls = prepare(rooms, *operands) if prepare and all(map(_stays, views_of(operands))) else None
        made += [(compute, operands)] if calls is None else [(call, ()) for call in calls]
        rooms.written(operands[0])
    return made


def _limited(steps: Sequence[Step]) -> list[Step]:
    """Merge each activation with the in-place tensor_scalar that follows it, if any."""
    merged: list[Step] = []
    for step in steps:
        before, operands = merged[-1] if merged else step, step[1]
        in_place = step[0] is apply_in_turn and before[0] is activate and _same(operands[0], operands[1])
        if in_place and _same(before[1][0], operands[0]):
            merged[-1] = (_activate_and_apply, (operands[0], before[1], operands))
        else:
            merged.append(step)
    return merged


def _same(one: StridedMemory, other: StridedMemory) -> bool:
    """Return True if two views refer to the same elements."""
    first, second = ((view.offset, view.shape, view.strides) for view in (one, other))
    return one.storage is other.storage and first == second


def _activate_and_apply(dst: StridedMemory, activation: tuple[Any, ...], scalars: tuple[Any, ...]) -> None:
    activate(*activation)
    apply_in_turn(*scalars)


def _stays(view: StridedMemory) -> bool:
    """Return True if a view refers to the same float32 array in every replay."""
    storage = view.storage
    same_array = not (storage.borrowed or storage.bits) and view._dtype is storage.dtype
    return same_array and storage.array is not None and storage.array.dtype == np.float32


class _Rooms:
    """Scratch arrays, and copies of tiles that BLAS cannot read in place.

    All matmuls that read the same values share the copies.
    """

    def __init__(self) -> None:
        self._scratch: dict[tuple[str, int], Array] = {}
        self._copies: dict[int, dict[Any, Array]] = {}  # by the storage's id, then by its view
        self._free: dict[int, list[Array]] = {}  # scratch arrays by number of elements
        self._elements = 0

    def scratch(self, purpose: str, elements: int) -> Array:
        return self._scratch.setdefault((purpose, elements), np.empty(elements, np.float32))

    def matrix(self, view: StridedMemory, rows: int, calls: Calls) -> Array:
        """Return the values as a matrix of `rows` rows; if this requires a copy, append the copying to `calls`."""
        values = view.values
        matrix = values.reshape(rows, -1)
        if np.may_share_memory(matrix, values):
            return matrix
        copies = self._copies.setdefault(id(view.storage), {})
        key = view.offset, view.shape, view.strides
        if key not in copies:
            free = self._free.get(matrix.size)
            copies[key] = free.pop() if free else matrix.reshape(-1)
            self._elements += matrix.size
            calls.append(partial(np.copyto, copies[key].reshape(values.shape), values))
        return copies[key].reshape(matrix.shape)

    def written(self, tensor: StridedMemory | Storage) -> None:
        """Drop the copies of a storage that is written, or all copies if there are too many."""
        if self._elements > MAX_PACKED:
            gone = [copy for copies in self._copies.values() for copy in copies.values()]
            self._copies.clear()
        else:
            key = id(tensor if isinstance(tensor, Storage) else tensor.storage)
            gone = list(self._copies.pop(key, {}).values())
        for copy in gone:
            self._elements -= copy.size
            self._free.setdefault(copy.size, []).append(copy)


def _matmul(
    rooms: _Rooms,
    dst: StridedMemory,
    stationary: StridedMemory,
    moving: StridedMemory,
    contracted: int,
    turns: bool,
    adds: Any,
    room: Array,
) -> Calls | None:
    if turns or not isinstance(adds, bool) or not dst._dtype.exact:
        return None
    calls: Calls = []
    left, right = rooms.matrix(stationary, contracted, calls).T, rooms.matrix(moving, contracted, calls)
    values = dst.values
    if values.flags.c_contiguous and not adds:
        return [*calls, partial(np.matmul, left, right, values.reshape(room.shape))]
    values, product = _dense(values, room.reshape(values.shape))
    store = partial(np.add, values, product, out=values) if adds else partial(np.copyto, values, product)
    return [*calls, partial(np.matmul, left, right, room), store]


def _dense(*arrays: Array) -> Sequence[Array]:
    """Return arrays of the same shape as vectors if all are contiguous, which reduces NumPy's overhead."""
    return [array.reshape(-1) for array in arrays] if all(array.flags.c_contiguous for array in arrays) else arrays


def _activation(
    rooms: _Rooms,
    dst: StridedMemory,
    function: ActivationFunction,
    data: StridedMemory,
    scale: Any,
    bias: Any,
    lanes: Array | None,
    command: Any,
    *,
    limits: tuple[Any, Any] | None = None,
) -> Calls | None:
    """Compile an activation; `limits` contains the bounds to which its result is clipped."""
    scaled = isinstance(scale, StridedMemory) or scale != 1.0
    if scaled or lanes is not None or data.shape != dst.shape or not dst._dtype.exact:
        return None
    values, result = data.values, dst.values
    if function.name == "copy" and limits is None:
        return [_copied(result, values) if bias is None else _sum(values, bias, result)]
    if function.name not in ("copy", "relu"):
        return None
    calls = Calls()
    if bias is not None:
        sums = result if result.flags.c_contiguous else rooms.scratch("sums", values.size).reshape(values.shape)
        calls, values = [_sum(values, bias, sums)], sums
    values, result = _dense(values, result)
    if limits is not None:
        return [*calls, partial(values.clip, *limits, out=result)]
    return [*calls, partial(np.maximum, values, np.float32(0), out=result)]


def _sum(values: Array, bias: Any, out: Array) -> Callable[[], Any]:
    """Return a call that adds a number, or one number per partition, to the values."""
    if values.flags.c_contiguous and out.flags.c_contiguous:
        values, out = (array.reshape(len(array), -1) for array in (values, out))
    return partial(np.add, values, broadcast_value(bias, values.ndim), out=out)


def _copied(dst: Array, src: Array) -> Callable[[], Any]:
    dst, src = _dense(dst, src)
    return partial(np.copyto, dst, src)


def _in_turn(
    rooms: _Rooms, dst: StridedMemory, data: StridedMemory, steps: tuple[tuple[AluOperator, Any, bool], ...]
) -> Calls | None:
    if data.shape != dst.shape or not dst._dtype.exact:
        return None
    limits = _limits(steps)
    if limits is not None:
        values, result = _dense(data.values, dst.values)
        return [partial(values.clip, *limits, out=result)]
    operator, operand, reverse = steps[0]
    if len(steps) > 1 or not isinstance(operator.compute, np.ufunc):
        return None
    terms = [data.values] if operator.unary else [data.values, broadcast_value(operand, len(data.shape))]
    return [partial(operator.compute, *(reversed(terms) if reverse else terms), out=dst.values)]


def _limits(steps: tuple[tuple[AluOperator, Any, bool], ...]) -> tuple[Any, Any] | None:
    """Return the lower and upper bounds of a tensor_scalar that only clips, or None for any other tensor_scalar."""
    numbers = [operand for _, operand, _ in steps]
    if [operator.name for operator, _, _ in steps] != ["maximum", "minimum"]:
        return None
    if any(isinstance(number, StridedMemory) for number in numbers):
        return None
    return np.float32(numbers[0]), np.float32(numbers[1])


def _limited_activation(
    rooms: _Rooms, dst: StridedMemory, activation: tuple[Any, ...], scalars: tuple[Any, ...]
) -> Calls | None:
    limits = _limits(scalars[2])
    return None if limits is None else _activation(rooms, *activation, limits=limits)


def _elementwise(
    rooms: _Rooms,
    dst: StridedMemory,
    operator: AluOperator,
    one: StridedMemory,
    other: StridedMemory,
    as_integers: bool,
) -> Calls | None:
    terms = _in_shape(dst, one, other)
    if as_integers or terms is None or not isinstance(operator.compute, np.ufunc):
        return None
    *terms, result = _dense(*terms, dst.values)
    return [partial(operator.compute, *terms, out=result)]


def _copy(rooms: _Rooms, dst: StridedMemory, src: StridedMemory) -> Calls | None:
    values = _in_shape(dst, src)
    return None if values is None else [_copied(dst.values, *values)]


def _in_shape(dst: StridedMemory, *tensors: StridedMemory) -> list[Array] | None:
    """Return the values of the tensors in the shape of dst, or None if this requires a copy or if dst rounds."""
    given = [tensor.values for tensor in tensors]
    found = [shaped(values, dst.shape) for values in given]
    return found if dst._dtype.exact and all(map(np.may_share_memory, found, given)) else None


def _set(rooms: _Rooms, dst: StridedMemory, values: Array) -> Calls | None:
    return [partial(np.copyto, dst.values, values)] if dst._dtype.exact else None


def _fill(rooms: _Rooms, storage: Storage) -> Calls | None:
    assert storage.array is not None
    return None if storage.bits else [partial(storage.array.fill, storage.dtype.fill)]


_CALLS: dict[Any, Callable[..., Calls | None]] = {
    _activate_and_apply: _limited_activation,
    activate: _activation,
    apply_in_turn: _in_turn,
    copy_values: _copy,
    elementwise: _elementwise,
    fill: _fill,
    multiply: _matmul,
    set_values: _set,
}

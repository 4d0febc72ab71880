"""The memory that operations report, compared with hand-computed values."""

from typing import Any

from trninfer.kernels.convolution.forms import Form
from trninfer.kernels.operation import Surroundings
from trninfer.kernels.program import NO_SIDES, Affine, ClassifierHead, Convolution, DenseHead, Load, WriteRegion


def around(**fields: Any) -> Surroundings:
    given: dict[str, Any] = {
        "images": 2,
        "images_read": 2,
        "at_once": 2,
        "tiles": 3,
        "operands": ((300, 10, 20),),
        "reads_hbm": False,
        "itemsize": 2,
        "partitions": 128,
        "bank_bytes": 2048,
    }
    return Surroundings(**{**given, **fields})


SIZE: dict[str, Any] = {"name": "a", "channels": 300, "rows": 10, "columns": 20}


def test_what_is_loaded_has_zeros_around_it() -> None:
    assert around().loaded_bytes(NO_SIDES) == 3 * 2 * 10 * 20 * 2
    assert around().loaded_bytes((1, 2, 0, 1)) == 3 * 2 * 11 * 23 * 2


def test_a_convolution_has_what_its_form_makes() -> None:
    plain = Convolution(**SIZE, kernel=(3, 3), padding=(1, 1, 1, 1))
    assert plain.scratch_bytes(around()) == 0
    assert plain.scratch_bytes(around(reads_hbm=True)) == 3 * 2 * 12 * 22 * 2
    in_groups = Convolution(**SIZE, kernel=(3, 3), group_bytes=5000)
    assert in_groups.scratch_bytes(around(reads_hbm=True)) == 5000
    made = Convolution(**SIZE, kernel=(7, 7), groups=300, form=Form.MADE)
    assert made.scratch_bytes(around()) == 2 * 49 * 128 * 2
    pairs = Convolution(**SIZE, kernel=(3, 3), form=Form.PAIRS, group_bytes=1 << 30)
    elements = 4 * (10 + 2) * 10
    assert pairs.scratch_bytes(around()) == 16 * 1024 + 2 * 3 * 2 * elements * 2


def test_other_operations_have_what_is_on_its_way() -> None:
    assert Load(**SIZE).scratch_bytes(around()) == 0
    assert ClassifierHead(**SIZE).scratch_bytes(around()) == 300 * 8
    assert DenseHead(**SIZE).scratch_bytes(around()) == 0
    assert DenseHead(**SIZE).scratch_bytes(around(reads_hbm=True)) == around().loaded_bytes(NO_SIDES)
    assert Affine(**SIZE, margin=(1, 0, 1, 0)).scratch_bytes(around()) == 8 * 3 * 2 * 12 * 20
    assert Affine(**SIZE, into=WriteRegion(0)).scratch_bytes(around()) == 0

"""Classes that kernels use, as described in nki-language-guide.rst ("Class Support")."""

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import nki.language as nl
import numpy as np
import pytest
from nki_tensors import on, tile
from trninfer import simulator
from trninfer.simulator.machine.errors import NkiValidationError, UndefinedOnChipWarning


@dataclass
class Decorated(nl.NKIObject):
    x: int
    y: bool = False

    def toggle(self):
        self.y = not self.y


class Plain(nl.NKIObject):
    x: int
    y: bool = False

    def toggle(self):
        self.y = not self.y


@pytest.mark.parametrize("kind", [Decorated, Plain])
def test_the_guides_class_with_and_without_the_decorator(kind):
    c = kind(1)
    c.toggle()
    assert (c.x, c.y) == (1, True) and c != kind(2, True)
    assert kind().x is None and kind().y is False  # a missing argument without a default is None


def test_equality_that_a_class_does_not_define_is_warned_of():
    assert Decorated(1) == Decorated(1) and Plain(1) != Plain(2)
    with pytest.warns(
        UndefinedOnChipWarning, match=r"`==` is applied to two objects of Plain.*NKI 0\.6 compared their fields"
    ):
        assert Plain(1) == Plain(1)


def test_fields_by_assignment_before_fields_without_a_default():
    """nki-library declares fields this way: no annotation, or no default after a field with one."""

    @dataclass
    class Section(nl.NKIObject):
        index = None
        size: int = 4
        offset: int
        kinds: ClassVar[int] = 3

    section = Section(index=7, size=2)
    assert (section.index, section.size, section.offset) == (7, 2, None)
    assert [f.name for f in dataclasses.fields(Section)] == ["size", "offset", "index"]


def test_defaults_initialisers_and_their_end():
    class Made(nl.NKIObject):
        parts: list = dataclasses.field(default_factory=list)
        limit: int = dataclasses.field(default=3)
        doubled: int

        def __post_init__(self):
            self.doubled = 2 * self.limit

    class Own(Made):
        def __init__(self, limit):
            self.limit = limit

    assert Made().doubled == 6 and Made(limit=5).doubled == 10
    assert Made().parts == [] and Made().parts is not Made().parts
    assert vars(Own(9)) == {"limit": 9}


def test_wrong_fields_are_named_with_the_right_ones():
    with pytest.raises(NkiValidationError, match="Plain: no field 'z' to set; its fields are x, y"):
        Plain(z=1)
    with pytest.raises(NkiValidationError, match="Plain: no field 'x' to set"):
        Plain(1, x=2)
    with pytest.raises(NkiValidationError, match="Plain: 3 values; its fields are x, y"):
        Plain(1, 2, 3)


def test_tensors_are_equal_only_to_themselves():
    with on():
        first, second = tile(np.zeros((2, 2))), tile(np.zeros((2, 2)))
        assert first == first and first != second and len({first, second}) == 2


def test_a_parameter_whose_fields_change_is_no_launch_seen_before():
    import nki.isa as nisa

    class Factor(nl.NKIObject):
        value: float

    def scale(a, factor):
        out = nl.ndarray(a.shape, a.dtype, nl.shared_hbm)
        t = nl.ndarray(a.shape, a.dtype)
        nisa.dma_copy(t, a)
        nisa.tensor_scalar(t, t, nl.multiply, factor.value)
        nisa.dma_copy(out, t)
        return out

    a, factor = np.ones((2, 2), np.float32), Factor(2.0)
    for value in (2.0, 3.0, 4.0, 5.0):  # from the third launch on, a known launch would be replayed
        factor.value = value
        assert simulator.run(scale, a, factor=factor, pure=True).outputs[0][0, 0] == value

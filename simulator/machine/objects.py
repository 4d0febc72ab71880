"""Python objects that kernels use in addition to tensors: user-defined classes, and slices defined by a start and a
size."""

from __future__ import annotations

import dataclasses
import inspect
import warnings
from typing import Any, ClassVar

from .errors import NkiValidationError, UndefinedOnChipWarning


class NKIObject:
    """Base class for user-defined classes in kernels.

    Subclasses are data classes, with or without `@dataclass`. Every annotated or assigned name is a field, fields
    without a value or a default are None, and objects with equal fields are equal (nki-language-guide.rst of 0.6,
    "Class Support" and "Enumerations"). Since NKI 0.7, kernels may use any class.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        """Declare the fields, so that Python's `dataclass` finds them if it decorates the class."""
        super().__init_subclass__(**options)
        declared = inspect.get_annotations(cls)
        for name, annotation in declared.items():
            if name not in cls.__dict__ and "ClassVar" not in str(annotation):
                setattr(cls, name, None)
        for name, value in list(cls.__dict__.items()):
            if name not in declared and not name.startswith("__") and _is_default(value):
                declared[name] = Any
        cls.__annotations__ = declared

    def __init__(self, *values: Any, **named: Any) -> None:
        cls = type(self)
        fields = _fields(cls)
        values_by_name = dict(zip(fields, values))
        wrong = [name for name in named if name not in fields or name in values_by_name]
        if wrong or len(values) > len(fields):
            problem = f"no field {wrong[0]!r} to set" if wrong else f"{len(values)} values"
            raise NkiValidationError(f"{cls.__name__}: {problem}; its fields are {', '.join(fields) or 'none'}")
        values_by_name.update(named)
        for name, default in fields.items():
            setattr(self, name, values_by_name[name] if name in values_by_name else _made(default))
        finish = getattr(self, "__post_init__", None)
        if finish is not None:
            finish()

    def __eq__(self, other: object) -> bool:
        if self is other or type(self) is not type(other):
            return self is other
        alike = vars(self) == vars(other)
        if alike:
            warnings.warn(
                f"`==` is applied to two objects of {type(self).__name__}, which does not define it: NKI 0.6 compared "
                "their fields, as the simulator does, but since NKI 0.7 Python compares identities, so the objects "
                "differ; make the class a dataclass",
                UndefinedOnChipWarning,
                stacklevel=2,
            )
        return alike

    __hash__: ClassVar[Any] = None  # equality depends on the fields, which are mutable


def _is_default(value: Any) -> bool:
    """Return True if a class attribute is the default of a field: a value that is neither a descriptor nor mutable."""
    return not callable(value) and not hasattr(type(value), "__get__") and type(value).__hash__ is not None


def _fields(cls: type) -> dict[str, Any]:
    """Return the fields of a class and their defaults, starting with the base classes."""
    fields: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        for name, annotation in inspect.get_annotations(base).items():
            if "ClassVar" not in str(annotation):
                fields[name] = getattr(cls, name, None)
    return fields


def _made(default: Any) -> Any:
    """Return the default value of a field."""
    if not isinstance(default, dataclasses.Field):
        return default
    if default.default_factory is not dataclasses.MISSING:
        return default.default_factory()
    return None if default.default is dataclasses.MISSING else default.default


class DynamicSlice:
    """The slice `nl.ds(start, size)`, containing the elements from `start` to `start + size` - 1."""

    __slots__ = ("size", "start")

    def __init__(self, start: int, size: int) -> None:
        self.start = start
        self.size = size

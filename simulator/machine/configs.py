"""Per-kernel configurations of `nki.jit` (since NKI 0.7). They are validated, but do not affect the simulation.

Source: en/v2.33.1/nki/api/nki.compiler.html and the pages of the classes. Undocumented defaults are None.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any

from .errors import NkiValidationError, OperatorError


class AddressRotation(Enum):
    """Setting that controls whether the compiler's back end may move tensors to other addresses."""

    AUTO = "auto"
    ENABLE = "enable"
    DISABLE = "disable"


@dataclass(frozen=True, kw_only=True)
class CompileConfig:
    """Options of the compiler (nki.compiler.CompileConfig)."""

    address_rotation: AddressRotation = AddressRotation.AUTO
    non_ssa_legalization: bool | None = None
    dead_code_elim: bool | None = None
    barrier_check: bool | None = None
    prefetch_auto: bool = False
    nki_alloc_fallback: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.address_rotation, AddressRotation):
            raise OperatorError(
                f"CompileConfig: address_rotation must be AUTO, ENABLE or DISABLE of nki.compiler.AddressRotation, "
                f"got {self.address_rotation!r}"
            )
        _check_flags(self, "address_rotation")


@dataclass(frozen=True, kw_only=True)
class SpecializationConfig:
    """Options of tracing (nki.compiler.SpecializationConfig)."""

    # if True, a kernel that is called by another kernel with a different configuration causes a warning instead of an
    # error
    allow_nested_config_override: bool = False

    def __post_init__(self) -> None:
        _check_flags(self)


def _check_flags(config: Any, *others: str) -> None:
    for field in fields(config):
        value = getattr(config, field.name)
        if field.name not in others and value is not None and not isinstance(value, bool):
            raise OperatorError(f"{type(config).__name__}: {field.name} must be True or False, got {value!r}")


@dataclass(frozen=True)
class Configs:
    """The two configurations of a kernel, each None if not specified."""

    compile_config: CompileConfig | None = None
    specialization_config: SpecializationConfig | None = None

    def __post_init__(self) -> None:
        for name, kind in (("compile_config", CompileConfig), ("specialization_config", SpecializationConfig)):
            value = getattr(self, name)
            if value is not None and not isinstance(value, kind):
                raise OperatorError(
                    f"nki.jit: {name} must be a nki.compiler.{kind.__name__}, got {type(value).__name__}"
                )

    def nested(self, name: str, outer: Configs) -> None:
        """Reject kernel `name` if its configuration differs from the outer kernel's, or only warn if overrides are
        allowed."""
        for given, running in (
            (self.compile_config, outer.compile_config),
            (self.specialization_config, outer.specialization_config),
        ):
            if given is None or given == running:
                continue
            message = f"{name}: {given} inside a kernel with {running}"
            if outer.specialization_config is None or not outer.specialization_config.allow_nested_config_override:
                raise NkiValidationError(
                    f"{message}; a kernel is compiled with one configuration, unless the outer one has "
                    "SpecializationConfig(allow_nested_config_override=True)"
                )
            warnings.warn(f"{message}: the outer one holds", UserWarning, stacklevel=3)


NO_CONFIGS = Configs()

"""Examples of Hypothesis that do not depend on the tests that ran before in the same process."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from hypothesis import settings

PROVIDERS = "hypothesis.internal.conjecture.providers"  # since 6.103


def draw_no_constants_of_modules() -> None:
    """Make Hypothesis ignore the constants in imported modules while a profile draws the same examples in each run.

    Since 6.131, it also draws numbers and texts that occur in the modules imported so far, which depend on the tests
    that ran before. It has no setting for this; without the function replaced here, a version does not do it.
    """
    providers: Any = import_module(PROVIDERS) if find_spec(PROVIDERS) else None
    constants_of_modules = getattr(providers, "_get_local_constants", None)
    if constants_of_modules is not None:
        nothing = providers._local_constants
        providers._get_local_constants = lambda: nothing if settings.default.derandomize else constants_of_modules()

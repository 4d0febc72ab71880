"""Lowering rules: how each kind of layer becomes operations, a file for each family.

A rule is a function under `@lowers(Kind)`; importing this package registers all of them.
"""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

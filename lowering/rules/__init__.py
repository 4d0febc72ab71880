"""Lowering rules, which convert each kind of layer to operations; one file per family of layers.

A rule is a function decorated with `@lowers(Kind)`; importing this package registers all rules.
"""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

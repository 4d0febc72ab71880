"""Scripts in older dialects, and the modules beside them, migrated in memory."""

import importlib
import linecache
import logging
import sys

import numpy as np
import pytest
from trninfer.simulator.migrate.in_memory import migrated, migrated_imports

KERNELS = """\
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


@nki.jit
def doubled(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.add(nl.load(a), nl.load(a)))
    return out


def failing():
    raise RuntimeError(logging.OFF)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "kernels_of_old.py").write_text(KERNELS)
    (tmp_path / "new_dialect.py").write_text("import nki\nVALUE = 3\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in ("kernels_of_old", "new_dialect"):
        sys.modules.pop(name, None)


def test_modules_are_migrated_on_import(folder):
    told = []
    with migrated_imports(told.append):
        module = importlib.import_module("kernels_of_old")
        assert importlib.import_module("new_dialect").VALUE == 3
    ones = np.ones((4, 4), np.float32)
    assert np.array_equal(module.doubled(ones), 2 * ones)
    assert told == ["kernels_of_old.py: an older NKI dialect, migrated in memory (`trninfer migrate` writes it)"]
    assert (folder / "kernels_of_old.py").read_text() == KERNELS
    assert hasattr(logging, "OFF")  # added by the package of older versions
    name = module.failing.__code__.co_filename
    assert "import nki\n" in linecache.getlines(name)


def test_other_files_are_not_changed(folder):
    told = []
    (folder / "broken.py").write_text("import neuronxcc\ndef (\n")
    (folder / "bytes.py").write_bytes(b"\xff neuronxcc")
    for name in ("new_dialect.py", "broken.py", "bytes.py", "missing.py"):
        assert migrated(str(folder / name), told.append) is None
    assert told == []

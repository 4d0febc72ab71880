"""Migrated kernels of older dialects pass the linter and match NumPy."""

import importlib.util
import sys
from pathlib import Path

import pytest
from trninfer import simulator
from trninfer.simulator.checking.lint import check_source

pytest.importorskip("libcst")
from trninfer.simulator.migrate import CANNOT, migrate_source

OLD = sorted(Path(__file__).with_name("old").glob("*.py"))


@pytest.mark.parametrize("path", OLD, ids=lambda path: path.stem)
def test_migrated_kernels_lint_clean_and_match_numpy(path, tmp_path, monkeypatch):
    migration = migrate_source(path.read_text())
    assert [note for note in migration.notes if note.kind == CANNOT] == []
    assert [str(finding) for finding in check_source(migration.text) if not finding.is_warning] == []
    assert "neuronxcc" not in migration.text
    again = migrate_source(migration.text)
    assert (again.text, [note for note in again.notes if note.kind == CANNOT]) == (migration.text, [])
    simulator.install()
    file = tmp_path / path.name
    file.write_text(migration.text)
    spec = importlib.util.spec_from_file_location(f"migrated_{path.stem}", file)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    module.check()

"""`trninfer migrate`: the destinations of its output, and its exit status."""

import json
import sys

import pytest
from trninfer.app.main import run

pytest.importorskip("libcst")

OLD = """\
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl
import numpy as np


@nki.jit
def doubled(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(a) * 2.0)
    return out


if __name__ == "__main__":
    x = np.ones((4, 8), np.float32)
    print(np.allclose(nki.simulate_kernel(doubled, x), 2 * x))
"""
LEFT = OLD.replace("    return out\n", "    nl.atomic_rmw(out, out, op=np.add)\n    return out\n")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "new").mkdir()
    for name, text in (("old.py", OLD), ("left.py", LEFT), ("bad.py", "def (\n"), ("k.ipynb", "{}")):
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_single_file_is_written_to_standard_output(folder, capsys):
    assert run(["migrate", "old.py"]) == 0
    out, err = capsys.readouterr()
    assert "nl.multiply(nl.load" in out
    assert "neuronxcc" not in out
    assert err.startswith("old.py: ")
    assert err.endswith("lint found no problems; not run (use --check to run it)\n")
    assert (folder / "old.py").read_text() == OLD


def test_remaining_work_is_reported_with_exit_status_1(folder, capsys):
    assert run(["migrate", "left.py", "--output", "new.py"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "left.py:10: cannot: nl.atomic_rmw" in err
    assert "1 left to do by hand" in err
    assert "# migrate: " in (folder / "new.py").read_text()


def test_a_bad_file_among_good_ones_is_named_and_the_others_are_written(folder, capsys):
    assert run(["migrate", "bad.py", "gone.py", "k.ipynb", "old.py", "--output", "new"]) == 2
    err = capsys.readouterr().err
    for told in ("bad.py:1: not Python source", "gone.py: cannot be read", "k.ipynb: not a Jupyter notebook"):
        assert told in err
    assert [path.name for path in (folder / "new").iterdir()] == ["old.py"]


def test_a_fault_of_the_migration_costs_one_file_and_is_called_ours(folder, capsys, monkeypatch):
    from trninfer.simulator.migrate import audit, module

    def planted(old, new):
        if "atomic_rmw" in module.ast.unparse(old):
            raise audit.LossError(3, "a call of kernel is missing")

    monkeypatch.setattr(module, "refuse_losses", planted)
    monkeypatch.setattr("trninfer.simulator.checking.lint.check_source", lambda text: 1 / 0)
    (folder / "zero.py").write_text("x = 0\n")
    assert run(["migrate", "left.py", "zero.py", "old.py", "--output", "new"]) == 2
    err = " ".join(capsys.readouterr().err.split())
    assert (
        "left.py:3: an internal error of trninfer; please report it: a call of kernel is missing; it is not migrated"
        in err
    )
    assert "old.py: an internal error of trninfer; please report it: its checks ended with ZeroDivisionError" in err
    assert sorted(path.name for path in (folder / "new").iterdir()) == ["old.py", "zero.py"]
    assert "Traceback" not in err


def test_files_beyond_the_limits_cost_no_other(folder, capsys):
    (folder / "deep.py").write_text("x = " + "+".join("1" * 1_200))
    (folder / "utf7.py").write_text("# coding: utf-7\nx = 1\n")
    (folder / "puny.py").write_text("# coding: punycode\nx = 1\n")
    (folder / "sum.py").write_text(OLD.replace("* 2.0", "* (" + " + ".join(["0.005"] * 400) + ")"))
    (folder / "latin.py").write_bytes(("# coding: latin-1\n" + OLD + "# é\n").encode("latin-1"))
    assert run(["migrate", "deep.py", "utf7.py", "puny.py", "sum.py", "latin.py", "--output", "new"]) == 2
    err = capsys.readouterr().err
    assert "deep.py: line 1 is nested deeper than 1,000 levels" in err
    assert "utf7.py: declares the encoding 'utf-7'; allowed: utf-8" in err
    assert "puny.py: declares the encoding 'punycode'" in err
    assert sorted(path.name for path in (folder / "new").iterdir()) == ["latin.py", "sum.py"]
    written = (folder / "new" / "latin.py").read_text("utf-8")
    assert written.startswith("# coding: utf-8\n") and written.endswith("# é\n")


def test_in_place_writes_the_file_itself(folder, capsys):
    assert run(["migrate", "--in-place", "old.py", "left.py"]) == 1
    assert "import nki\n" in (folder / "old.py").read_text()
    assert run(["migrate", "--in-place", "old.py"]) == 0
    assert "old.py: nothing to change; lint found no problems; not run" in capsys.readouterr().err


@pytest.mark.slow
def test_check_runs_the_file(folder, capsys):
    assert run(["migrate", "--check", "old.py"]) == 0
    err = capsys.readouterr().err
    assert "lints clean and runs; check: 1 launch, 1 of 1 comparisons hold; the old file" in err
    assert "does not run here, because neuronxcc" in err
    (folder / "wrong.py").write_text(OLD.replace("2 * x))", "3 * x))"))
    assert run(["migrate", "--check", "wrong.py"]) == 1
    err = capsys.readouterr().err
    assert "lint found no problems; check: 1 launch, 0 of 1 comparisons hold; line " in err and "lints clean" not in err


def test_a_notebook_is_migrated(folder, capsys):
    cells = [{"cell_type": "code", "outputs": [], "source": source} for source in ("%time x = 1", LEFT)]
    cells.append({"cell_type": "code", "outputs": [], "source": "%%writefile old.py\n" + OLD})
    (folder / "k.ipynb").write_text(json.dumps({"cells": cells}))
    assert run(["migrate", "k.ipynb", "--output", "new"]) == 1
    err = capsys.readouterr().err
    assert "k.ipynb:cell 2:10: cannot: nl.atomic_rmw" in err
    assert "k.ipynb:cell 3: " in err and err.endswith("lint found no problems; not run (use --check to run it)\n")
    new = json.loads((folder / "new" / "k.ipynb").read_text())["cells"]
    assert new[0] == cells[0]
    assert all("import nki\n" in cell["source"] and "neuronxcc" not in cell["source"] for cell in new[1:])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["old.py", "left.py"], "several FILEs require --output with a folder, or --in-place"),
        (["old.py", "--in-place", "--output", "x.py"], "cannot be used together"),
        (["old.py", "./old.py", "--output", "new"], "have the same name"),
        (["old.py", "--output", "none/x.py"], "does not exist"),
    ],
)
def test_wrong_usage(folder, capsys, options, told):
    assert run(["migrate", *options]) == 2
    assert told in capsys.readouterr().err


def test_missing_libcst_is_reported_with_the_extra_to_install(folder, capsys, monkeypatch):
    for name in list(sys.modules):
        if name.startswith("trninfer.simulator.migrate"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "libcst", None)
    assert run(["migrate", "old.py"]) == 2
    assert 'pip install "trninfer[migrate]"' in capsys.readouterr().err

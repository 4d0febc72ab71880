"""Notebooks: code cells are rewritten, and everything else is kept."""

import json

import pytest

pytest.importorskip("libcst")

from trninfer.simulator.checking.lint.rules import Finding
from trninfer.simulator.migrate import MigrationError, notebook
from trninfer.simulator.migrate.notebook import NotebookError, migrate_notebook

KERNEL = """\
@nki.jit
def doubled(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(a) * 2.0)
    return out"""
IMPORTS = "import neuronxcc.nki as nki\nimport neuronxcc.nki.language as nl\n"
OUTPUTS = [{"output_type": "stream", "name": "stdout", "text": ["\u03b1 1\n"]}]


def document(*sources):
    cells = [{"cell_type": "markdown", "metadata": {}, "source": ["# import neuronxcc.nki"]}]
    for source in sources:
        lines = source.splitlines(keepends=True)
        cells.append({"cell_type": "code", "execution_count": 3, "outputs": OUTPUTS, "source": lines})
    return {"cells": cells, "metadata": {"kernelspec": {"name": "python3"}}, "nbformat": 4, "nbformat_minor": 5}


def migrated(*sources, **style):
    text = json.dumps(document(*sources), **style)
    return text, migrate_notebook(text)


def source_of(found, number):
    return "".join(json.loads(found.text)["cells"][number - 1]["source"])


def test_cells_are_rewritten_and_the_rest_is_kept():
    sources = (f"%matplotlib inline\n{IMPORTS}!pip list", KERNEL, "%%bash\nls", "x = nki.simulate_kernel(doubled, a)")
    text, found = migrated(*sources)
    assert source_of(found, 2).startswith("%matplotlib inline\nimport nki\nimport nki.language as nl\n")
    assert source_of(found, 2).endswith("\n!pip list")
    assert "nl.multiply(nl.load(as_rows(a)), 2.0)" in source_of(found, 3)
    assert source_of(found, 4) == sources[2]
    assert "nki.simulate(doubled)(a)" in source_of(found, 5)
    new, old = json.loads(found.text), json.loads(text)
    for cell in (*new["cells"], *old["cells"]):
        cell.pop("source")
    assert new == old


@pytest.mark.parametrize("style", [{"indent": 1}, {"indent": 1, "ensure_ascii": False}, {"indent": 4}, {}])
def test_lines_of_the_file_that_need_no_change_stay_as_they_were(style):
    _, found = migrated(IMPORTS, "y = 1", **style)
    assert source_of(found, 2) == "import nki\nimport nki.language as nl\n"
    new = json.dumps(document("import nki\nimport nki.language as nl\n", "y = 1"), **style)
    assert found.text == new
    assert migrate_notebook(new).text == new
    odd = json.dumps(document("y = 1"), indent=3)
    assert migrate_notebook(odd).text == odd


def test_a_file_that_a_cell_writes_is_migrated_separately():
    _, found = migrated("x = 1", f"%%writefile kernel.py\n{IMPORTS}{KERNEL}\n    nl.atomic_rmw(out, out)\n")
    assert source_of(found, 3).startswith("%%writefile kernel.py\nimport nki\nimport nki.language as nl\n")
    cells, written = found.parts
    assert not cells.migration.notes and written.within == ":cell 3"
    (note,) = written.migration.notes
    assert written.shown(note, "a.ipynb").startswith("a.ipynb:cell 3:9: cannot: nl.atomic_rmw")


def test_notes_name_the_cell():
    _, found = migrated(IMPORTS, KERNEL.replace("    return", "    nl.atomic_rmw(out, out)\n    return"))
    (part,) = found.parts
    assert part.shown(part.migration.notes[0], "a.ipynb").startswith("a.ipynb:cell 3:5: cannot: nl.atomic_rmw")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"cells": 4}', '{"cells": ["a"]}'])
def test_other_files_are_refused(text):
    with pytest.raises(NotebookError, match="not a Jupyter notebook"):
        migrate_notebook(text)


def test_a_cell_that_is_not_python_is_named():
    with pytest.raises(NotebookError, match="cell 3, line 2: not Python source"):
        migrated("x = 1", "y = 2\nz = (")


def test_a_lost_magic_is_a_fault_of_ours(monkeypatch):
    whole = notebook.migrate_source

    def planted(text):
        found = whole(text)
        return notebook.Migration(found.text.replace("'jupyter magic 1'", "pass"), found.notes)

    monkeypatch.setattr(notebook, "migrate_source", planted)
    with pytest.raises(MigrationError, match="have changed"):
        migrated(IMPORTS + "!ls", KERNEL)


def test_literals_like_placeholders_are_kept():
    _, found = migrated(f"s = 'jupyter magic 1'\n!ls\n{IMPORTS}", "t = 'jupyter cell 1'")
    assert source_of(found, 2) == "s = 'jupyter magic 1'\n!ls\nimport nki\nimport nki.language as nl\n"
    assert source_of(found, 3) == "t = 'jupyter cell 1'"


def test_findings_name_the_cell_of_the_new_text():
    (part,) = migrated("x = 1", f"'jupyter cell 9'\n{IMPORTS}")[1].parts
    found = part.located(Finding("", part.migration.text.splitlines().index("import nki") + 1, "rule", "text"))
    assert (found.path, found.line) == ("cell 3", 2)


@pytest.mark.parametrize("first", ["%pwd", "%%writefile kernel.py"])
def test_rewritten_lines_keep_the_line_ends_of_the_cell(first):
    source = f"{first}\n{IMPORTS}\n{KERNEL}\nx = 1\n"
    _, found = migrated("y = 2\nz = 3", source.replace("\n", "\r\n"))
    _, expected = migrated("y = 2\nz = 3", source)
    assert source_of(found, 3) == source_of(expected, 3).replace("\n", "\r\n")
    assert source_of(found, 2) == source_of(expected, 2)


def test_a_notebook_without_code_is_left_as_it_was():
    text, found = migrated()
    assert found.text == text

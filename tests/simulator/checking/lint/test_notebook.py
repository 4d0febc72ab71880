"""Notebooks: findings name the cell and its line."""

import json

import pytest
from trninfer.simulator.checking.lint import SourceError, examine_file

CELLS = [
    ("markdown", ["# A kernel"]),
    ("code", ["%matplotlib inline\n", "import nki\n", "import nki.language as nl"]),
    ("code", ["@nki.jit\n", "def kernel(a):\n", "    nl.none(a)\n", "    return a"]),
    ("code", ["%%bash\n", "ls (not Python)"]),
    ("code", ["if True:\n", "    !pip install nki"]),
]


def write(path, cells):
    path.write_text(json.dumps({"cells": [{"cell_type": kind, "source": lines} for kind, lines in cells]}))
    return path


def test_findings_name_the_cell(tmp_path):
    path = write(tmp_path / "kernels.ipynb", CELLS)
    report = examine_file(path)
    assert report.kernels == ("kernel",)
    assert [(f.path, f.line, f.rule) for f in report.findings] == [(f"{path}:cell 3", 3, "unknown-name")]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"cells": [{}]}', '{"cells": 4}'])
def test_invalid_notebook_is_refused(tmp_path, text):
    path = tmp_path / "kernels.ipynb"
    path.write_text(text)
    with pytest.raises(SourceError, match=r"kernels\.ipynb: not a Jupyter notebook"):
        examine_file(path)


def test_files_that_cells_write_are_checked(tmp_path):
    kernel = ["%%writefile kernel.py\n", "import nki\n", *CELLS[2][1][:1], "def kernel(a):\n", "    nki.none(a)\n"]
    path = write(tmp_path / "kernels.ipynb", [CELLS[0], ("code", kernel)])
    report = examine_file(path)
    assert report.kernels == ("kernel",)
    assert [(f.path, f.line, f.rule) for f in report.findings][:1] == [(f"{path}:cell 2", 5, "unknown-name")]

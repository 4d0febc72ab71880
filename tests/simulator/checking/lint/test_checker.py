"""The functions that the checker examines."""

import os
import textwrap
from pathlib import Path

import pytest
from linted_functions import write_files
from trninfer.simulator.checking.lint import SourceError, check_file, check_source, checker, examine_file

HEADER = """\
import nki
import nki.isa as nisa
import nki.language as nl
"""


def test_code_around_kernels_may_be_any_python():
    text = HEADER + textwrap.dedent(
        """
        import numpy as np

        CACHE = {}

        @nki.jit
        def kernel(a):
            return helper(a)

        def helper(a):
            return a

        def main(*files, **options):
            CACHE["x"] = [np.float32(i) for i, _ in enumerate(files)]
            kernel(*CACHE["x"])
            raise SystemExit(sum(CACHE["x"]))
        """
    )
    assert check_source(text) == []


@pytest.mark.parametrize(
    ("imports", "decorator"),
    [
        ("import nki", "@nki.jit"),
        ("import nki", "@nki.jit()"),
        ("import nki as n", "@n.jit"),
        ("from nki import jit", "@jit"),
        ("from nki import jit as compile", "@compile"),
        ("import nki\njit = nki.jit", "@jit"),
        ("import functools, nki", "@functools.partial(nki.jit)"),
        ("import nki.language\nimport nki", "@nki.jit"),
    ],
)
def test_a_kernel_is_found_however_its_decorator_is_spelled(imports, decorator):
    text = f"{imports}\nimport nki.language as nl\n\n{decorator}\ndef kernel(a):\n    nl.nothing(a)\n"
    assert [finding.rule for finding in check_source(text)] == ["unknown-name"]


def test_a_function_handed_to_jit_is_a_kernel():
    text = "import nki\n\ndef kernel(a):\n    nki.kernels(a)\n\nfast = nki.jit(kernel)\n"
    assert [(finding.line, finding.rule) for finding in check_source(text)] == [(4, "unknown-name")]


def test_another_jit_is_not_nkis():
    assert check_source("import numba\n\n@numba.jit\ndef kernel(a):\n    nki.kernels(a)\n") == []


def test_a_kernel_that_another_one_calls_may_return_an_on_chip_tensor():
    text = (
        HEADER
        + "@nki.jit\ndef load(a):\n    return nl.ndarray(a.shape, a.dtype)\n\n@nki.jit\ndef kernel(a):\n    load(a)\n"
    )
    assert check_source(text) == []


def test_kernel_called_by_the_host_must_return_outputs():
    text = HEADER + "@nki.jit\ndef kernel(a):\n    return nl.ndarray(a.shape, a.dtype)\n\ndef main(a):\n    kernel(a)\n"
    assert [finding.rule for finding in check_source(text)] == ["output-buffer"]


def test_recursive_helpers_are_checked_once():
    text = (
        HEADER
        + "def f(n):\n    return g(n)\n\ndef g(n):\n    return f(n)\n\n@nki.jit\ndef kernel(a):\n    return f(a)\n"
    )
    assert check_source(text) == []


def test_the_report_names_the_kernels():
    path = Path(__file__).parents[4] / "kernels" / "matmul.py"
    assert "matmul_tiled" in examine_file(path).kernels


def test_checked_file_is_not_executed(tmp_path):
    trace = tmp_path / "ran"
    write_files(tmp_path, helpers=f"open({str(trace)!r}, 'w')\ndef f(a):\n    return a\n")
    write_files(tmp_path, kernels="import nki, helpers\n\n@nki.jit\ndef kernel(a):\n    return helpers.f(a)\n")
    assert check_file(tmp_path / "kernels.py") == []
    assert not os.path.exists(trace)


@pytest.mark.parametrize(
    ("comment", "silent"),
    [
        ("# noqa", True),
        ("# noqa: unknown-name", True),
        ("# noqa: E501, unknown-name (why)", True),
        ("# noqa: E501", False),
    ],
)
def test_comments_silence_findings_of_their_line(comment, silent):
    text = HEADER + f"@nki.jit\ndef kernel(a):\n    nl.none(a)  {comment}\n    return a\n"
    assert [finding.rule for finding in check_source(text)] == ([] if silent else ["unknown-name"])


@pytest.mark.slow
def test_the_kernels_of_the_package_are_clean():
    folder = Path(__file__).parents[4] / "kernels"
    found = {str(finding) for path in folder.rglob("*.py") for finding in examine_file(path).findings}
    assert found == set()


def test_a_jitted_helper_may_return_a_tile_unless_the_host_calls_it():
    helper = HEADER + "@nki.jit\ndef part(a):\n    t = nl.load(a)\n    return t\n"
    (finding,) = check_source(helper)
    assert finding.rule == "tile-output" and finding.is_warning
    (finding,) = check_source(helper + "import numpy as np\npart(np.ones((4, 4)))\n")
    assert finding.rule == "output-buffer" and not finding.is_warning


@pytest.mark.parametrize("grid, shown", [("3", "3"), ("0", "0"), ("1, 2", "1, 2"), ("(4,)", "4,")])
def test_grids_of_other_numbers_of_cores_are_found(grid, shown):
    kernel = HEADER + "\n@nki.jit\ndef kernel(a):\n    return a\n\n"
    (found,) = [each for each in check_source(kernel + f"kernel[{grid}](x)\n") if each.rule == "launch-grid"]
    assert found.line == 9 and f"kernel[{shown}]: a launch grid must be 1 or 2 cores" in found.message
    for allowed in ("1", "2", "(2,)", "cores", "nc(2)"):
        assert all(each.rule != "launch-grid" for each in check_source(kernel + f"kernel[{allowed}](x)\n"))


def test_an_internal_error_is_reported_in_one_line(monkeypatch):
    monkeypatch.setattr(checker, "check_calls", lambda scope: {}["why"])
    with pytest.raises(SourceError) as caught:
        check_source("import nki\n\n@nki.jit\ndef kernel(a):\n    return a\n", "k.py")
    assert str(caught.value) == "k.py: an internal error of trninfer; please report it: KeyError: 'why'"

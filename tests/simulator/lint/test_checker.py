"""Which functions the checker looks at, how it follows helpers into other files, and files that are no Python."""

import os
import textwrap
from pathlib import Path

import pytest
from trninfer.simulator.lint import SourceError, check_file, check_source, examine_file

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


def test_a_kernel_on_tiles_may_return_a_tile():
    """nki-library's subkernels are jitted and called from other files: their parameters are operands of engines."""
    body = "    t = nl.ndarray((128, 8), nl.float32)\n    nisa.tensor_copy(dst=t, src={source})\n    return t\n"
    for source in ("a", "a[:, 0:8]", "a.reshape((128, 8))[:, 0:8]"):
        assert check_source(HEADER + "@nki.jit\ndef part(a):\n" + body.format(source=source)) == []
    entry = HEADER + "@nki.jit\ndef kernel(a):\n" + body.format(source="nl.load(a)")
    assert [finding.rule for finding in check_source(entry)] == ["output-buffer"]


def test_a_kernel_that_writes_to_its_argument_need_not_return_anything():
    body = "    a = nl.ndarray((8, 8), nl.float32, buffer=nl.shared_hbm)\n    {write}\n"
    for write in ("nisa.dma_copy(dst=out[0:8], src=a)", "nl.store(out, nl.load(a))"):
        assert check_source(HEADER + "@nki.jit\ndef kernel(out):\n" + body.format(write=write)) == []
    lost = HEADER + "@nki.jit\ndef kernel(x):\n" + body.format(write="nl.store(a, nl.load(x))")
    assert [finding.rule for finding in check_source(lost)] == ["lost-output"]


def test_what_the_host_calls_is_an_output():
    text = HEADER + "@nki.jit\ndef kernel(a):\n    return nl.ndarray(a.shape, a.dtype)\n\ndef main(a):\n    kernel(a)\n"
    assert [finding.rule for finding in check_source(text)] == ["output-buffer"]


def test_names_of_the_api_are_followed_through_every_spelling():
    text = textwrap.dedent(
        """\
        import nki
        from nki import isa, language
        from nki.isa import tensor_copy as copy
        add_tiles = isa.tensor_tensor

        @nki.jit
        def kernel(a):
            copy(a)
            isa.tensor_copy(a)
            add_tiles(a, a, a)
            nki.isa.reciprocal(a)
            language.nothing
            return a
        """
    )
    assert [(finding.line, finding.rule) for finding in check_source(text)] == [
        (8, "missing-argument"),
        (9, "missing-argument"),
        (10, "missing-argument"),
        (11, "missing-argument"),
        (12, "unknown-name"),
    ]


def test_local_names_hide_those_of_the_module():
    assert check_source(HEADER + "@nki.jit\ndef kernel(a, nisa):\n    sum = nisa.nothing(a)\n    return sum\n") == []


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


BAD_HELPER = "import nki\ndef half(n):\n    return nki.nothing(n)\n\ndef unused(n):\n    return nki.nothing(n)\n"


@pytest.mark.parametrize(
    ("imported", "called"),
    [
        ("from .helpers import half", "half(a)"),
        ("from .helpers import half as h", "h(a)"),
        ("from . import helpers", "helpers.half(a)"),
        ("from helpers import half", "half(a)"),
        ("import helpers", "helpers.half(a)"),
        ("import helpers as tools", "tools.half(a)"),
        ("from .again import half", "half(a)"),
        ("from .helpers import half\nalias = half", "alias(a)"),
        ("from ..package.helpers import half", "half(a)"),
        ("from package.helpers import half", "half(a)"),
        ("import package.helpers", "package.helpers.half(a)"),
    ],
)
def test_helpers_are_followed_into_their_files(tmp_path, imported, called):
    package = tmp_path / "package"
    write(
        package,
        kernels=f"import nki\n{imported}\n\n@nki.jit\ndef kernel(a):\n    return {called}\n",
        helpers=BAD_HELPER,
    )
    write(package, again="from .helpers import half\n")
    (package / "__init__.py").write_text("")
    found = check_file(package / "kernels.py")
    assert [(Path(finding.path).name, finding.line, finding.rule) for finding in found] == [
        ("helpers.py", 3, "unknown-name")
    ]


def test_imports_that_go_round_in_a_circle_end(tmp_path):
    write(tmp_path, one="from .two import f\n", two="from .one import f\n")
    write(tmp_path, kernels="import nki\nfrom .one import f\n\n@nki.jit\ndef kernel(a):\n    return f(a)\n")
    assert check_file(tmp_path / "kernels.py") == []


def test_helpers_that_call_each_other_end():
    text = (
        HEADER
        + "def f(n):\n    return g(n)\n\ndef g(n):\n    return f(n)\n\n@nki.jit\ndef kernel(a):\n    return f(a)\n"
    )
    assert check_source(text) == []


def test_the_report_names_the_kernels():
    path = Path(__file__).parents[3] / "kernels" / "matmul.py"
    assert "matmul_tiled" in examine_file(path).kernels


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"def f(:\n", "file.py:1: not Python source: invalid syntax"),
        (b"x = '\xff'\n", "not UTF-8"),
        (b"# -*- coding: nothing -*-\n", "unknown encoding"),
        (b"x = 1\0\n", "null bytes"),
        (b"x = " + b"+".join([b"1"] * 20_000), "nested too deeply"),
    ],
)
def test_a_file_that_is_no_python_gets_one_line(tmp_path, content, part):
    path = tmp_path / "file.py"
    path.write_bytes(content)
    with pytest.raises(SourceError) as caught:
        check_file(path)
    assert part in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_a_folder_and_an_unparsable_helper_get_one_line(tmp_path):
    with pytest.raises(SourceError, match=r"missing\.py: cannot be read: No such file"):
        check_file(tmp_path / "missing.py")
    with pytest.raises(SourceError, match="not a regular file"):
        check_file(tmp_path)
    write(
        tmp_path, helpers="def f(:\n", kernels="import nki\nimport helpers\n\n@nki.jit\ndef k(a):\n    helpers.f(a)\n"
    )
    with pytest.raises(SourceError, match=r"helpers\.py:1: not Python source"):
        check_file(tmp_path / "kernels.py")


def test_nothing_is_run(tmp_path):
    trace = tmp_path / "ran"
    write(tmp_path, helpers=f"open({str(trace)!r}, 'w')\ndef f(a):\n    return a\n")
    write(tmp_path, kernels="import nki, helpers\n\n@nki.jit\ndef kernel(a):\n    return helpers.f(a)\n")
    assert check_file(tmp_path / "kernels.py") == []
    assert not os.path.exists(trace)


def test_names_that_lead_to_each_other_are_each_looked_at_once():
    """With each path to a name followed anew, the first takes 2 to the power of 300 steps, the second 12 factorial."""
    chain = "a0 = nl.zeros((1,), nl.float32)\n" + "".join(f" a{i} = a{i - 1}; a{i} = a{i - 1}\n" for i in range(1, 300))
    mutual = "".join(f" a{i} = nl.zeros_like(a{j})\n" for i in range(12) for j in range(12))
    begin = "import nki\nimport nki.language as nl\n@nki.jit\ndef k(a):\n"
    assert [finding.rule for finding in check_source(f"{begin} {chain} return a299\n")] == ["output-buffer"]
    assert list(check_source(f"{begin}{mutual} return a0\n")) == []

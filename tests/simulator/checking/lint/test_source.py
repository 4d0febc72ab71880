"""Files as seen by the checker: name bindings, resolved imports, and invalid Python."""

import ast
from pathlib import Path

import pytest
from linted_functions import write_files
from trninfer.simulator.checking.lint import SourceError, check_file
from trninfer.simulator.checking.lint.source import (
    MAX_SOURCE_BYTES,
    MAX_SOURCE_LINES,
    Assigned,
    Definition,
    External,
    Files,
    Import,
    bindings_of,
    blocks_of,
    local_names,
    parameters,
    parse_module,
    read_source,
)


def tree(text):
    return ast.parse(text)


def test_bindings():
    body = """
import os.path, numpy as np
from . import near
from ..far import thing as other
a = b = 1
c, (d, *e) = 1, (2, 3)
f: int = 4
for g in []:
    h = 1
else:
    i = 2
with open('x') as j, k():
    l = 3
try:
    m = 1
except ValueError as w:
    n = 2
finally:
    o = 3
match a:
    case [x, *y] | {'k': x, **y}:
        p = 1
if a and (q := 2):
    import r
r = 1
class S: s = 1
def t(u): v = 1
"""
    found = bindings_of(tree(body).body)
    imports = {name: binding for name, binding in found.items() if isinstance(binding, Import)}
    assert imports == {
        "os": Import(0, "os"),
        "np": Import(0, "numpy"),
        "near": Import(1, "", "near"),
        "other": Import(2, "far", "thing"),
        "r": Import(0, "r"),
    }
    assert {name for name, binding in found.items() if isinstance(binding, Assigned)} == set("abcdefghijlmnopqwxy")
    assert found["a"].expression.value == 1 and found["f"].expression.value == 4 and found["c"].expression is None
    assert (found["S"].name, found["t"].name) == ("S", "t") and not {"s", "u", "v", "k"} & set(found)


def test_an_import_wins_over_an_assignment_and_the_first_of_others_does():
    for text in ("try:\n    import x\nexcept ImportError:\n    x = None", "x = None\nimport x"):
        assert bindings_of(tree(text).body)["x"] == Import(0, "x")
    assert bindings_of(tree("x = 1\nx = 2").body)["x"].expression.value == 1
    assert isinstance(bindings_of(tree("def x(): pass\nimport x").body)["x"], ast.FunctionDef)


def test_local_names():
    text = """
def f(a, /, b, *c, d=1, **e):
    global g
    g = h = 1
    for i in [j for j in a]:
        with k as (l, m): n[o] = 1
    try: pass
    except ValueError as p: pass
    class Q: pass
    def r(s): t = 1
    lambda u: v
    match a:
        case {1: w, **x} if (y := w): pass
    import z
"""
    function = tree(text).body[0]
    assert local_names(function) == {*"abcdehijlmprstuwxy", "Q"}
    assert [each.arg for each in parameters(function.args)] == ["a", "b", "d", "c", "e"]


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("x = 1\nx = 2", {"x": 2}),
        ("x = 1\nx += 1", {"x": 2}),
        ("x = y = 1\ny, z = 1, 2", {"y": 2}),
        ("x = 1\ndef f():\n    global x\n    x = 2", {"x": 3}),
        ("x = []\ndef f():\n    x.append(1)", {"x": 3}),
        ("x = {}\ndef f():\n    x['a'] = 1\n    del x['a']", {"x": 3}),
        ("x = {}\ndef f(x):\n    x['a'] = 1", {}),
        ("x = {}\ndef f():\n    x = {}\n    x.update(a=1)", {}),
        ("x = []\nf = lambda x: x.clear()\ng = lambda: x.clear()", {"x": 3}),
        ("x = []\ndef f():\n    return x.index(1), x[0], y.append(2)", {}),
        ("import x\nx.pop(1)", {}),
        ("def f():\n    x = 1\n    x = 2", {}),
    ],
)
def test_globals_that_change(text, changed):
    assert parse_module(text, "file.py", None).changed == changed


def test_blocks_of_compound_statements():
    text = "try:\n    a\nexcept B:\n    c\nelse:\n    d\nfinally:\n    e"
    assert [ast.unparse(block) for block in blocks_of(tree(text).body[0])] == ["a", "d", "e", "c"]
    assert [ast.unparse(block) for block in blocks_of(tree("match a:\n    case 1: b\n    case c: d").body[0])] == [
        "b",
        "d",
    ]
    assert list(blocks_of(tree("a = 1").body[0])) == []


def test_names_of_a_module_lead_to_what_they_mean(tmp_path):
    write_files(
        tmp_path,
        one="import numpy as np\nfrom .two import f, g as h, missing\nimport two\n"
        "k = h\nl = np.add\nm = two.f\nn = 1 + 1\n",
        two="def f(): pass\ndef g(): pass\n",
    )
    files = Files()
    module = files.read(tmp_path / "one.py")
    two = files.read(tmp_path / "two.py")
    assert files.read(tmp_path / "." / "two.py") is two  # each once
    f, g = (Definition(two, two.bindings[name]) for name in "fg")
    meanings = {name: files.member(module, name) for name in module.bindings}
    assert meanings == {
        **{"np": External("numpy"), "f": f, "h": g, "missing": None, "two": two},
        **{"k": g, "l": External("numpy.add"), "m": f, "n": None},
    }
    assert files.attribute(External("a.b"), "c") == External("a.b.c")
    assert files.attribute(two, "f") == f and files.attribute(f, "x") is None and files.attribute(None, "x") is None


def test_names_of_the_standard_library_and_of_texts_without_a_file_are_not_looked_up(tmp_path):
    write_files(tmp_path, math="def ceil(): pass\n", near="")
    module = Files().read(write(tmp_path / "kernel.py", "import math, near\n"))
    assert Files().member(module, "math") == External("math") and Files().member(module, "near") is not None
    nowhere = parse_module("import near\nfrom . import near as n", "<source>", None)
    assert Files().member(nowhere, "near") == External("near") and Files().member(nowhere, "n") is None


def write(path, text):
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"#" * (MAX_SOURCE_BYTES + 1), "the file is larger than 512 KiB, the limit for checking"),
        (b"\n" * (MAX_SOURCE_LINES + 1), "the file has more than 20,000 lines, the limit for checking"),
    ],
)
def test_the_longest_source(tmp_path, data, why):
    path = tmp_path / "file.py"
    path.write_bytes(data[:-1])
    assert len(read_source(path, "file.py")) == len(data) - 1
    path.write_bytes(data)
    with pytest.raises(SourceError, match=f"^file.py: {why}$"):
        read_source(path, "file.py")


def test_a_source_in_another_encoding(tmp_path):
    path = tmp_path / "file.py"
    path.write_bytes("# coding: latin-1\nx = 'é'\n".encode("latin-1"))
    assert read_source(path, "file.py").endswith("x = 'é'\n")


@pytest.mark.parametrize("encoding", ["utf-7", "punycode", "idna", "utf-16", "rot13", "unicode_escape", "cp037"])
def test_encodings_beside_the_list_are_refused_before_anything_is_decoded(tmp_path, encoding):
    path = tmp_path / "file.py"
    path.write_bytes(f"# coding: {encoding}\nx = 1\n".encode())
    with pytest.raises(SourceError, match=f"declares the encoding '{encoding}'; allowed: utf-8, utf-8-sig, ascii"):
        read_source(path, "file.py")


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
    write_files(
        package,
        kernels=f"import nki\n{imported}\n\n@nki.jit\ndef kernel(a):\n    return {called}\n",
        helpers=BAD_HELPER,
    )
    write_files(package, again="from .helpers import half\n")
    (package / "__init__.py").write_text("")
    found = check_file(package / "kernels.py")
    assert [(Path(finding.path).name, finding.line, finding.rule) for finding in found] == [
        ("helpers.py", 3, "unknown-name")
    ]


def test_imports_that_go_round_in_a_circle_end(tmp_path):
    write_files(tmp_path, one="from .two import f\n", two="from .one import f\n")
    write_files(tmp_path, kernels="import nki\nfrom .one import f\n\n@nki.jit\ndef kernel(a):\n    return f(a)\n")
    assert check_file(tmp_path / "kernels.py") == []


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
    write_files(
        tmp_path, helpers="def f(:\n", kernels="import nki\nimport helpers\n\n@nki.jit\ndef k(a):\n    helpers.f(a)\n"
    )
    with pytest.raises(SourceError, match=r"helpers\.py:1: not Python source"):
        check_file(tmp_path / "kernels.py")

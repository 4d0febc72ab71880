"""The meaning of names in a function, and the positions of findings."""

import ast
import textwrap

import pytest
from linted_functions import HEAD, scope_of
from trninfer.simulator.checking.lint import check_source
from trninfer.simulator.checking.lint.rules import Finding
from trninfer.simulator.checking.lint.source import Definition, External

TEXT = HEAD + textwrap.dedent(
    """\
    from math import ceil
    add = nl.add
    COUNT = 0
    COUNT += 1

    def helper(x):
        return x

    def outer(scale, nisa):
        import os.path as paths
        def inner(y):
            return y
        def kernel(a, n):
            import json
            local = add = 1
            return [each for each in a]
        return kernel
    """
)


def node(text):
    return ast.parse(text, mode="eval").body


@pytest.mark.parametrize(
    ("text", "dotted"),
    [
        ("nl.float32", "nki.language.float32"),
        ("np.random.rand", "numpy.random.rand"),
        ("ceil", "math.ceil"),
        ("paths.join", "os.path.join"),
        ("json.loads", "json.loads"),
        ("len", "builtins.len"),
        ("nisa.iota", None),  # a parameter of the enclosing function
        ("add", None),
        ("a.shape", None),
        ("each", None),
        ("unknown", None),
        ("scale", None),
        ("f()", None),
    ],
)
def test_names_of_modules_that_are_not_followed(text, dotted):
    scope, _ = scope_of(TEXT)
    assert scope.external(node(text)) == dotted
    assert scope.resolve(node(text)) == (External(dotted) if dotted else None)


def test_functions_here_and_around():
    scope, _ = scope_of(TEXT)
    outer = next(each for each in scope.module.tree.body if getattr(each, "name", "") == "outer")
    inner = outer.body[1]
    assert scope.resolve(node("helper")) == Definition(scope.module, scope.module.bindings["helper"])
    assert scope.resolve(node("inner")) == Definition(scope.module, inner, (outer,))
    helper, _ = scope_of(TEXT, name="helper")
    assert helper.external(node("add")) == "nki.language.add" and helper.external(node("nisa.iota")) == "nki.isa.iota"
    assert helper.resolve(node("inner")) is None


def test_names_of_functions_around_and_globals_that_change():
    scope, _ = scope_of(TEXT)
    line = TEXT.splitlines().index("COUNT += 1") + 1
    assert (scope.changed_global("COUNT"), scope.changed_global("ceil")) == (line, None)
    shadowed, _ = scope_of(TEXT.replace("local = add", "COUNT = add"))
    assert shadowed.changed_global("COUNT") is None


def test_findings_are_of_known_rules():
    scope, found = scope_of(TEXT)
    scope.report(scope.function, "unknown-name", "why")
    assert found == [Finding("kernel.py", scope.function.lineno, "unknown-name", "why")]
    with pytest.raises(AssertionError, match="no-such-rule"):
        scope.report(scope.function, "no-such-rule", "why")


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
    assert check_source(HEAD + "@nki.jit\ndef kernel(a, nisa):\n    sum = nisa.nothing(a)\n    return sum\n") == []

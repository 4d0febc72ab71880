"""The checker's API: names, calls that match a signature, and messages about others."""

import ast

import pytest
from trninfer.simulator.checking.lint.api import Parameter, api, arguments_of, misfits, tensor_member, unknown_name

NOW = api()


def call(text):
    return ast.parse(text, mode="eval").body


@pytest.mark.parametrize(
    ("dotted", "message"),
    [
        ("nki", None),
        ("nki.jit", None),
        ("nki.isa", None),
        ("nki.isa.tensor_copy", None),
        ("nki.isa.tensor_copy.anything", None),
        ("nki.isa.engine.vector", None),
        ("nki.isa.engine.vector.value", None),
        ("nki.isa.engine.vectr", "nki.isa.engine has no 'vectr'; did you mean 'vector'?"),
        ("nki.isa.tensor_cpy", "nki.isa has no 'tensor_cpy'; did you mean 'tensor_copy'?"),
        ("nki.isa.qqq", "nki.isa has no 'qqq'"),
        ("nki.language.tile_size.pmax", None),
        ("nki.language.tile_size.pmin", "nki.language.tile_size has no 'pmin'"),
        ("nki.language.NkiTensor.address", None),
        ("nki.nothing", "nki has no 'nothing'"),
        ("nki.typing.anything.at.all", None),
        ("nki.collectives.rank_id", None),
        ("nki.collectives.rank", "nki.collectives has no 'rank'"),
    ],
)
def test_names(dotted, message):
    found = unknown_name(dotted, NOW)
    assert found is None if message is None else found is not None and found.startswith(message)


def test_new_names():
    assert unknown_name("nki.language.tiles", NOW) is None


def test_members_of_tensors():
    assert [tensor_member(name, NOW) for name in ("shape", "dtype", "reshape", "ap")] == [None] * 4
    assert tensor_member("reshap", NOW) == "a tensor has no 'reshap'; did you mean 'reshape'?"
    assert {"reshape", "permute", "view", "ap"} <= NOW.views and "load" not in NOW.views


COPY = NOW.signatures["nki.isa.tensor_copy"]  # (dst, src, engine, name)
TAKES = "its parameters are (dst, src, engine, name)"


def test_arguments_by_parameter():
    def bound(text):
        return {name: ast.unparse(node) for name, node in arguments_of(call(text), COPY).items()}

    assert bound("f(a, b, engine=c)") == {"dst": "a", "src": "b", "engine": "c"}
    assert bound("f(a, *b, name=c)") == {"dst": "a", "name": "c"}
    assert bound("f(**a)") == {} and bound("f(a, b, c, d, e)") == {"dst": "a", "src": "b", "engine": "c", "name": "d"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f(a, b)", []),
        ("f(dst=a, src=b, engine=c, name=d)", []),
        ("f(*a)", []),
        ("f(**a)", []),
        ("f(a)", [("missing-argument", f"f requires 'src'; {TAKES}")]),
        ("f(src=a, name=b)", [("missing-argument", f"f requires 'dst'; {TAKES}")]),
        ("f(a, b, dst=c)", [("duplicate-argument", "f gets 'dst' both by position and by keyword")]),
        ("f(a, b, engin=c)", [("unknown-argument", f"f has no parameter 'engin'; did you mean 'engine'?; {TAKES}")]),
        ("f(a, b, c, d, e)", [("too-many-arguments", f"f takes at most 4 positional arguments, got 5; {TAKES}")]),
        ("f(a, *b, c, d, e, g)", []),
    ],
)
def test_calls_that_do_not_fit(text, expected):
    found = list(misfits("f", call(text), COPY))
    assert [rule for rule, _ in found] == [rule for rule, _ in expected]
    for (_, message), (_, told) in zip(found, expected):
        assert message.startswith(told)


def test_parameters_that_take_anything():
    first, rest, options = (Parameter(name, kind, False) for name, kind in (
        ("a", "positional"), ("rest", "var_positional"), ("options", "var_keyword"),
    ))  # fmt: skip
    assert list(misfits("f", call("f(1, 2, 3)"), (first, rest))) == []
    assert list(misfits("f", call("f(1, any=2)"), (first, options))) == []
    assert [rule for rule, _ in misfits("f", call("f(1, 2, any=3)"), (first,))] == [
        "too-many-arguments",
        "unknown-argument",
    ]


def test_use_of_a_result_reports_that_instructions_write_to_dst():
    ((rule, message),) = misfits("nisa.reciprocal", call("f(data=a)"), NOW.signatures["nki.isa.reciprocal"])
    assert rule == "missing-argument" and message.startswith(
        "nisa.reciprocal requires 'dst'; its parameters are (dst, data, name); "
    )
    assert len(message) > len("nisa.reciprocal requires 'dst'; its parameters are (dst, data, name); ")

"""Positions of nodes in a source, and the facts known about a function during its migration."""

import ast
import textwrap

import pytest
from migrated_kernels import migrated

pytest.importorskip("libcst")
from trninfer.simulator.migrate.context import Ambiguous, Context, Source, Tensor, joined, view_of
from trninfer.simulator.migrate.indices import Index
from trninfer.simulator.migrate.names import Names
from trninfer.simulator.migrate.notes import CANNOT, Notes
from trninfer.simulator.migrate.sums import Sum


@pytest.mark.parametrize("text", ["add(a, b[0 : n])", "größe + add(ä, 'ü')", "(\n    add(a,\n        'é', b)\n)", "x"])
def test_the_text_of_a_node_is_found_in_its_source(text):
    """Python gives columns in UTF-8 bytes, whereas texts are indexed by characters."""
    source, tree = Source(text), ast.parse(text, mode="eval").body
    for node in ast.walk(tree):
        if isinstance(node, ast.expr):
            assert source.of(node) == ast.get_source_segment(text, node)
            start, end = source.span(node)
            assert text[start:end] == source.of(node)


def context(text="", **options):
    return Context(Names(ast.parse(text)), Notes(), {}, **options)


def test_fresh_names_are_none_that_the_function_has():
    ctx = context(taken={"tile_1", "tile_3", "x_t_4"})
    assert [ctx.fresh(), ctx.fresh(), ctx.fresh("x_t"), ctx.fresh("x_t")] == ["tile_2", "tile_4", "x_t_5", "x_t_6"]
    assert {"tile_2", "x_t_6"} <= ctx.taken


def test_notes_go_to_the_line_that_is_migrated_and_helpers_are_remembered():
    ctx = context("import nki.isa as instructions\nfrom nki import language", line=7)
    ctx.add(CANNOT, "no counterpart")
    assert [(note.line, note.message) for note in ctx.notes.notes] == [(7, "no counterpart")]
    assert (ctx.needs("assign"), ctx.support) == ("assign", {"assign"})
    assert (ctx.nl, ctx.nisa) == ("language", "instructions")


def test_state_after_two_branches():
    tile = Tensor("sbuf", "nl.int8", ("4", "6"))
    for first, second, expected in (
        (tile, tile, tile),
        (tile, None, tile),
        (tile, Tensor("sbuf", "nl.int8", ("4", "8")), Tensor("sbuf", "nl.int8")),
        (tile, Tensor("psum", "nl.int32", ("4", "6")), Tensor("", "t.dtype", ("4", "6"))),
        (Index(Sum(1)), Index(Sum(1)), Index(Sum(1))),
        (Index(Sum(1)), Index(Sum(2)), Ambiguous()),
        (None, Index(Sum(2)), Ambiguous()),
        (None, None, None),
    ):
        assert joined({"t": first}, {"t": second}) == joined({"t": second}, {"t": first}) == {"t": expected}
    assert joined({"a": tile}, {"b": None}) == {"a": tile, "b": None}


def test_a_part_of_a_tensor_has_its_memory_and_no_blocks():
    tensor = Tensor("psum", "nl.float32", ("128", "4"), blocks=2)
    assert view_of(tensor, ("128", "1")) == Tensor("psum", "nl.float32", ("128", "1"))


def test_a_name_that_one_branch_binds_keeps_its_value():
    """As in `if pooled: i = nl.mgrid[...]`, where `i` is read below another `if pooled:`."""
    tile = Tensor("sbuf", "nl.float32", ("4", "4"))
    assert joined({"n": None, "x": tile}, {"n": None}) == {"n": None, "x": tile}
    text = """
        if n > 2:
            i = nl.mgrid[0:4, 0:3]
        if n > 2:
            nl.store(out[i.p, i.x], nl.load(a[i.p, i.x + 1]))
    """
    assert "nl.store(out[0:4, 0:3], nl.load(a[0:4, 1:4]))" in migrated(textwrap.dedent(text), "a, out, n")

"""Pair the two syntax trees of a file: the libcst tree, which preserves the layout and is edited, and the ast tree,
which is analysed."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

import libcst as cst


def paired(module: cst.Module, tree: ast.Module) -> dict[cst.CSTNode, ast.stmt]:
    """Map each statement of the libcst tree, including simple statements and `elif`, to its node in the ast tree."""
    found: dict[cst.CSTNode, ast.stmt] = {}
    _pair(module.body, tree.body, found)
    return found


def _pair(nodes: Sequence[cst.CSTNode], trees: Sequence[ast.stmt], found: dict[cst.CSTNode, ast.stmt]) -> None:
    flat = list(_each(nodes))
    if len(flat) != len(trees):
        raise ValueError("the syntax trees of libcst and ast differ")
    for node, tree in zip(flat, trees):
        found[node] = tree
        blocks = list(zip(_blocks(node), _blocks_of(tree)))
        for body, statements in blocks:
            _pair(body, statements, found)


def _each(nodes: Sequence[cst.CSTNode]) -> Iterator[cst.CSTNode]:
    for node in nodes:
        if isinstance(node, cst.SimpleStatementLine):
            yield from node.body
        else:
            yield node


def _blocks(node: Any) -> Iterator[Sequence[cst.CSTNode]]:
    """Return the blocks of a statement in order. An `elif` is a block with a single statement."""
    body = getattr(node, "body", None)
    if isinstance(body, cst.BaseSuite):
        yield body.body
    for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        yield part.body.body
    for part in (getattr(node, "orelse", None), getattr(node, "finalbody", None)):
        if isinstance(part, cst.If):
            yield [part]
        elif isinstance(part, (cst.Else, cst.Finally)):
            yield part.body.body


def _blocks_of(tree: Any) -> Iterator[list[ast.stmt]]:
    if isinstance(getattr(tree, "body", None), list):
        yield tree.body
    for part in (*getattr(tree, "handlers", ()), *getattr(tree, "cases", ())):
        yield part.body
    for name in ("orelse", "finalbody"):
        block = getattr(tree, name, None)
        if isinstance(block, list) and block:
            yield block

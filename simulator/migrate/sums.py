"""Integer expressions as sums of a number and terms of source text, each with a factor."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from ..machine.syntax import parse

BEFORE_SUMS = (ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)  # operators that bind more tightly than + and -


@dataclass(frozen=True)
class Sum:
    """A sum of the form number + factor * text + ..., with source text as terms."""

    number: int = 0
    terms: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str) -> Sum:
        """Parse an expression into a sum, as far as its syntax permits."""
        return _parse(parse(text, mode="eval").body)

    @property
    def is_number(self) -> bool:
        return not self.terms

    def __add__(self, other: Sum | int) -> Sum:
        added = other if isinstance(other, Sum) else Sum(other)
        terms = dict(self.terms)
        for text, factor in added.terms.items():
            terms[text] = terms.get(text, 0) + factor
        return Sum(self.number + added.number, {text: factor for text, factor in terms.items() if factor})

    def __neg__(self) -> Sum:
        return self * -1

    def __sub__(self, other: Sum | int) -> Sum:
        return self + (-other if isinstance(other, Sum) else Sum(-other))

    def __mul__(self, other: Sum | int) -> Sum:
        factor = other if isinstance(other, Sum) else Sum(other)
        if factor.is_number:
            terms = {text: count * factor.number for text, count in self.terms.items()}
            return Sum(self.number * factor.number, {t: c for t, c in terms.items() if c})
        if self.is_number:
            return factor * self
        return Sum(0, {f"{self.atom} * {factor.atom}": 1})

    @property
    def text(self) -> str:
        """Return the sum as source text, with additions before subtractions."""
        terms = sorted(self.terms.items(), key=lambda item: item[1] < 0)
        parts = [(factor, _scaled(term, factor, is_first=not at)) for at, (term, factor) in enumerate(terms)]
        if self.number or not parts:
            parts.append((self.number, str(abs(self.number))))
        text = "".join(f" {'-' if factor < 0 else '+'} {shown}" for factor, shown in parts)
        return ("-" if text.startswith(" -") else "") + text[3:]

    @property
    def atom(self) -> str:
        """Return the sum as source text that can be a factor."""
        return _factor(self.text)


def _scaled(term: str, factor: int, is_first: bool) -> str:
    """Return `term` times the absolute value of `factor` as source text that may follow a sign."""
    if factor == -1:  # a leading minus would only apply to the first factor: -(a // 2) is not -a // 2
        return _factor(term, of_sum=not is_first)
    return term if factor == 1 else f"{abs(factor)} * {_factor(term)}"


def _factor(text: str, of_sum: bool = False) -> str:
    """Parenthesise text unless it can be a factor (or, with `of_sum`, a term)."""
    node = parse(text, mode="eval").body
    product = isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Div, ast.FloorDiv, ast.Mod))
    if isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Constant)) or (of_sum and product):
        return text
    return f"({text})"


def _parse(node: ast.expr) -> Sum:
    match node:
        case ast.Constant(value=number) if type(number) is int:
            return Sum(number)
        case ast.UnaryOp(op=ast.USub()):
            return -_parse(node.operand)
        case ast.BinOp(op=ast.Add()):
            return _parse(node.left) + _parse(node.right)
        case ast.BinOp(op=ast.Sub()):
            return _parse(node.left) - _parse(node.right)
        case ast.BinOp(op=ast.Mult()):
            a, b = _parse(node.left), _parse(node.right)
            is_scaled = (a.is_number or b.is_number) and len(a.terms) + len(b.terms) > 1
            if is_scaled or (a.is_number and b.is_number):
                return a * b
    text = ast.unparse(node)
    tight = isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Constant))
    tight = tight or (isinstance(node, ast.BinOp) and isinstance(node.op, BEFORE_SUMS))
    return Sum(0, {text if tight else f"({text})": 1})

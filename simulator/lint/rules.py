"""The rules of the checker, by the stable names that findings carry."""

from __future__ import annotations

from dataclasses import dataclass

RULES: dict[str, str] = {
    # The Python subset of the NKI compiler
    "unsupported-statement": "A statement that the NKI compiler does not take (raise, try, import, del, match, ...).",
    "unsupported-expression": "An expression that it does not take (lambda, comprehension, walrus, set, @, ...).",
    "unsupported-constant": "A constant that it does not take: complex, bytes, an integer beyond 32 bits.",
    "nested-function": "A function defined in a kernel, other than the body of nl.fori_loop or nl.while_loop.",
    "loop-else": "An else branch of a loop.",
    "loop-target": "A for loop over more than one name.",
    "with-block": "A with block other than `with nl.no_reorder():`.",
    "dict-key": "A dictionary key that is not a string literal.",
    "min-max": "min or max of something else than one list or tuple, or two numbers.",
    "container-method": "A method of lists, dicts or strings that it does not have, such as insert, update or upper.",
    "reversed-slice": "A slice that runs backward, such as l[::-1].",
    "integer-arithmetic": "// and % by negative numbers, and negative powers of integers, which it computes otherwise.",
    "format-spec": "An f-string with a format specification.",
    "identity-comparison": "`is` or `is not` with something else than None.",
    "membership-chain": "`in` or `not in` in a chained comparison.",
    "signature": "Parameters that it does not take: *args, **kwargs, the bare *, lists as defaults of a kernel.",
    "decorator": "A decorator of a helper other than nki.jit, staticmethod and dataclass.",
    "builtin": "A Python builtin that it does not know.",
    "host-call": "A call of NumPy, a framework or the standard library, which exists on the host only.",
    "numpy-dtype": "A NumPy dtype where nki.language has its own.",
    "global-state": "A global variable that changes: a kernel must be a pure function of its arguments.",
    "closure": "A variable or function of an enclosing function.",
    "class-base": "A class used in a kernel that derives from neither nl.NKIObject nor Enum.",
    # The NKI API
    "unknown-name": "A name that nki does not have.",
    "missing-argument": "A call of the NKI API without a required argument.",
    "unknown-argument": "A keyword argument that the function does not have.",
    "duplicate-argument": "An argument given by position and by keyword.",
    "too-many-arguments": "More positional arguments than the function has.",
    "alu-operator": "An operator that the engines' ALUs do not have, such as divide.",
    "activation-function": "A function that the Scalar Engine does not have.",
    "tensor-operator": "An operator of Python on a tensor, as in a + b or a > 0.",
    "not-on-chip": "A function that works in AWS's simulator but does not compile for the chip.",
    "memset-value": "A memset of an integer tensor with a float.",
    "output-buffer": "A kernel's output that is not in nl.shared_hbm.",
    "lost-output": "A kernel that makes a tensor in nl.shared_hbm and returns nothing.",
    "dma-reads-psum": "A DMA that reads PSUM.",
    "old-dialect": "A name, argument or value of an earlier NKI; the message says what replaces it.",
}
"""One line on each rule, in the order in which the help shows them."""


@dataclass(frozen=True, order=True)
class Finding:
    """A line that breaks a rule."""

    path: str
    line: int
    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.message}"

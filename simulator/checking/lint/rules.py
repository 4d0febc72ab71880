"""The rules of the checker, by the stable names that findings carry."""

from __future__ import annotations

from dataclasses import dataclass

RULES: dict[str, str] = {
    # The Python subset of the NKI compiler up to 0.6
    "unsupported-statement": "0.6: a statement that the NKI compiler does not take (raise, try, import, del, ...).",
    "unsupported-expression": "0.6: an expression that it does not take (lambda, comprehension, walrus, f(*a), ...).",
    "unsupported-constant": "0.6: a constant that it does not take: complex, bytes, an integer beyond 32 bits.",
    "nested-function": "0.6: a function defined in a kernel, other than the body of nl.fori_loop or nl.while_loop.",
    "loop-else": "0.6: an else branch of a loop.",
    "loop-target": "0.6: a for loop over more than one name.",
    "assign-target": "0.6: unpacking into anything but names, as in `self.a, self.b = pair`.",
    "with-block": "0.6: a with block other than `with nl.no_reorder():`.",
    "dict-key": "0.6: a dictionary key that is not a string literal.",
    "dict-membership": "0.6: `in` or `not in` a dictionary.",
    "min-max": "0.6: min or max of something else than one list or tuple, or two numbers.",
    "container-method": "0.6: a method of lists, dicts or strings that it does not have, such as insert or upper.",
    "reversed-slice": "0.6: a slice that runs backward, such as l[::-1].",
    "integer-arithmetic": "0.6: // and % by negative numbers and negative powers of integers, computed otherwise.",
    "format-spec": "0.6: an f-string with a format specification.",
    "identity-comparison": "0.6: `is` or `is not` with something else than None.",
    "membership-chain": "0.6: `in` or `not in` in a chained comparison.",
    "signature": "0.6: parameters that it does not take: *args, **kwargs, the bare *, lists as defaults of a kernel.",
    "decorator": "0.6: a decorator of a helper other than nki.jit, staticmethod and dataclass.",
    "builtin": "0.6: a Python builtin that it does not know.",
    "host-call": "0.6: a call of NumPy, a framework or the standard library, which exists on the host only.",
    "closure": "0.6: a variable or function of an enclosing function.",
    "class-base": "0.6: a class used in a kernel that derives from neither nl.NKIObject nor Enum.",
    # What tracing makes of Python, since 0.7
    "device-condition": "0.7: Python control flow on a value that exists on the device only (if, while, int, range).",
    "named-parameters": "0.7: a kernel with *args or **kwargs; TorchNeuron binds operands by name.",
    "frozen-value": "0.7, warning: a clock, random numbers or the environment, read while tracing and compiled in.",
    "own-equality": "0.7, warning: == between objects of a class that does not define it, compared by identity now.",
    "deprecated": "0.7, warning: what still works and goes with a later version.",
    # Python in both
    "numpy-dtype": "A NumPy dtype where nki.language has its own.",
    "global-state": "A global variable that changes: a kernel must be a pure function of its arguments.",
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
    "gpsimd-psum": "The GpSimd Engine reading or writing PSUM, to which it has no path.",
    "matmul-output": "The Tensor Engine writing elsewhere than to PSUM.",
    "tile-size": "A tile of more than 128 partitions, or of more bytes than a partition of its memory holds.",
    "operand-memory": "An operand in a memory that its instruction does not reach, such as one in HBM.",
    "operand-size": "An operand of more elements than its instruction takes, or of another size than it must have.",
    "operand-dtype": "An operand of a dtype that its instruction does not take.",
    "device-loop": "A device loop with a step below 1, or whose body returns a value.",
    "refused": "What the simulator refuses when it runs the kernel, on shapes that the file or --shapes gives.",
    "otherwise": "Warning: what the chip does otherwise, found by running the kernel as for `refused`.",
    "tile-output": "Warning: a jitted function that returns a tile: kernels may call it, the host may not.",
    # What kernels that run on chips take care of, and reports say (simulator/instructions/reported.py)
    "interleaved-sums": "Sums that matmuls begin one after the other in a bank of PSUM and go on with in turn.",
    "psum-words": "Warning: a 16-bit tile in PSUM of an odd number of columns, which ends within a word.",
    "psum-slot": "Warning: a 16-bit view in PSUM that begins within a word; the back end refuses it.",
    "one-partition": "Warning: a reshape of a tile of one partition; the back end refuses its partition step of 0.",
    "transposed-rows": "Warning: dma_transpose into rows that are no multiple of 32 bytes; the back end refuses it.",
    "one-column": "Warning: a 16-bit tile in SBUF, or a stationary operand, of a single column.",
    "tensor-name": "Warning: a name that several tensors of a launch have.",
    "old-dialect": "A name, argument or value of an earlier NKI; the message says what replaces it.",
}
"""One line on each rule, in the order in which the help shows them."""

ONLY_0_6 = frozenset(name for name, line in RULES.items() if line.startswith("0.6:"))
ONLY_0_7 = frozenset(name for name, line in RULES.items() if line.startswith("0.7"))
WARNINGS = frozenset(name for name, line in RULES.items() if line.startswith(("0.7, warning:", "Warning:")))


def holds(rule: str, version: str) -> bool:
    """True if a rule is one of a version of NKI."""
    return rule not in (ONLY_0_7 if version == "0.6" else ONLY_0_6)


@dataclass(frozen=True, order=True)
class Finding:
    """A line that breaks a rule."""

    path: str
    line: int
    rule: str
    message: str

    @property
    def is_warning(self) -> bool:
        """True if the kernel compiles nevertheless."""
        return self.rule in WARNINGS

    def __str__(self) -> str:
        kind = "warning: " if self.is_warning else ""
        return f"{self.path}:{self.line}: {kind}{self.rule}: {self.message}"

"""The rules of the checker, with the stable names that findings use."""

from __future__ import annotations

from dataclasses import dataclass

RULES: dict[str, str] = {
    # Python code that runs while a kernel is traced
    "device-condition": "Python control flow on a value that exists only on the device (if, while, int, range).",
    "named-parameters": "A kernel with *args or **kwargs; TorchNeuron binds operands by name.",
    "frozen-value": "Warning: a clock, random numbers or the environment, which are read while tracing and compiled "
    "into the kernel.",
    "own-equality": "Warning: == between objects of a class that does not define it, which compares identities.",
    "deprecated": "Warning: a deprecated feature, which a later version of NKI will remove.",
    "numpy-dtype": "A NumPy dtype; nki.language has its own dtypes.",
    "global-state": "A global variable that changes: a kernel must be a pure function of its arguments.",
    # The NKI API
    "unknown-name": "A name that does not exist in nki.",
    "missing-argument": "A call of the NKI API without a required argument.",
    "unknown-argument": "A keyword argument that the function does not have.",
    "duplicate-argument": "An argument given by position and by keyword.",
    "too-many-arguments": "More positional arguments than the function has.",
    "alu-operator": "An operator that the ALUs of the engines do not support, such as divide.",
    "activation-function": "A function that the Scalar Engine does not support.",
    "tensor-operator": "An operator of Python on a tensor, as in a + b or a > 0.",
    "not-on-chip": "A function that works in AWS's simulator but does not compile for the chip.",
    "memset-value": "A memset of an integer tensor with a float.",
    "output-buffer": "A kernel that returns something other than a tensor in nl.shared_hbm.",
    "lost-output": "A kernel that allocates a tensor in nl.shared_hbm but returns nothing.",
    "dma-reads-psum": "A DMA that reads PSUM.",
    "gpsimd-psum": "The GpSimd Engine reading or writing PSUM, which it cannot access.",
    "matmul-output": "The Tensor Engine writing to a memory other than PSUM.",
    "tile-size": "A tile of more than 128 partitions, of more bytes than a partition of its memory holds, or "
    "without elements.",
    "operand-memory": "An operand in a memory that its instruction cannot access, such as HBM.",
    "operand-size": "An operand with too many elements for its instruction, or with a wrong size.",
    "operand-dtype": "An operand with a dtype that its instruction does not support.",
    "index-range": "An index or a slice outside the shape of a tensor, too many indices, or partitions with a step.",
    "access-pattern": "An access pattern with both scalar_offset and vector_offset.",
    "jit-option": "An option of nki.jit of a wrong type.",
    "launch-grid": "A launch grid other than 1 or 2 cores.",
    "device-loop": "A device loop with a step below 1, or whose body returns a value.",
    "refused": "An error of the simulator when it runs the kernel on the shapes in the file or in --shapes.",
    "otherwise": "Warning: behaviour that differs on the chip, found by running the kernel.",
    "uninitialised": "Warning: memory that is read or returned before it is written, found by running the kernel.",
    "reused-tile": "Warning: a tile whose reuse takes time, with the gain from separate tiles, found by running the "
    "kernel.",
    "tile-output": "Warning: a jitted function that returns a tile; kernels may call it, but the host must not.",
    # Rules that kernels known to run on hardware follow, and rules from reports (simulator/instructions/reported.py)
    "interleaved-sums": "Interleaved sums of matmuls in one bank of PSUM.",
    "psum-words": "Warning: a 16-bit tile in PSUM of an odd number of columns, which ends within a word.",
    "psum-slot": "Warning: a 16-bit view in PSUM that begins within a word, which the back end rejects.",
    "one-partition": "Warning: a reshape of a tile of one partition, whose partition step of 0 the back end rejects.",
    "transposed-rows": "Warning: dma_transpose into rows that are not a multiple of 32 bytes, which the back end "
    "rejects.",
    "one-column": "Warning: a 16-bit tile in SBUF, or a stationary operand, of a single column.",
    "tensor-name": "Warning: one name for several tensors of a launch.",
    "old-dialect": "A name, argument or value of an earlier version of NKI; the message states the replacement.",
}
"""A one-line description of each rule, in the order of the help."""

WARNINGS = frozenset(name for name, line in RULES.items() if line.startswith("Warning:"))


@dataclass(frozen=True, order=True)
class Finding:
    """A violation of a rule on a line."""

    path: str
    line: int
    rule: str
    message: str

    @property
    def is_warning(self) -> bool:
        """Return True if the kernel still compiles."""
        return self.rule in WARNINGS

    def __str__(self) -> str:
        kind = "warning: " if self.is_warning else ""
        return f"{self.path}:{self.line}: {kind}{self.rule}: {self.message}"

"""Names of a launch's tensors that carry a reference to their operation.

For NKI a name is a string. The simulator keeps the object itself, so that a timeline can determine, from the name of a
tensor, the operation and the pass for which an instruction computes or loads. No text is parsed.
"""

from __future__ import annotations

from typing import NewType

OpId = NewType("OpId", int)  # number of an operation, counted across all stages of a program


class TensorName(str):
    """The name, unique in its launch, of a tensor that `operation` computes in pass `pass_number`.

    `is_early`: the tensor contains weights that were loaded before an earlier operation.
    """

    operation: OpId
    pass_number: int
    is_early: bool

    def __new__(cls, text: str, operation: OpId, pass_number: int, is_early: bool = False) -> TensorName:
        """Return a name whose text is `text`."""
        name = super().__new__(cls, text)
        name.operation, name.pass_number, name.is_early = operation, pass_number, is_early
        return name

    def __getnewargs__(self) -> tuple[str, OpId, int, bool]:  # type: ignore[override]
        """Return the arguments with which pickle recreates the name."""
        return str(self), self.operation, self.pass_number, self.is_early

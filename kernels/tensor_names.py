"""Names of the tensors of a launch, which refer to the operation that computes them.

For NKI, a name is a string. The simulator keeps the object itself, so that timelines can look up the operation and the
pass of an instruction from the name of the tensor that it computes or loads, without parsing text.
"""

from __future__ import annotations

from typing import NewType

OpId = NewType("OpId", int)  # number of an operation, counted across all stages of a program


class TensorName(str):
    """The name, unique in its launch, of a tensor that `operation` computes in pass `pass_number`."""

    operation: OpId
    pass_number: int

    def __new__(cls, text: str, operation: OpId, pass_number: int) -> TensorName:
        """Create a TensorName from `text`."""
        name = super().__new__(cls, text)
        name.operation, name.pass_number = operation, pass_number
        return name

    def __getnewargs__(self) -> tuple[str, OpId, int]:  # type: ignore[override]
        """Return the arguments with which pickle recreates the name."""
        return str(self), self.operation, self.pass_number

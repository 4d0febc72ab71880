"""Names of a launch's tensors that know their operation.

To NKI a name is a string. The simulator keeps the object itself, so that a timeline can ask a tensor's name which
operation and pass an instruction writes or loads for. Nothing is parsed.
"""

from __future__ import annotations

from typing import NewType

OpId = NewType("OpId", int)  # number of an operation through all stages of a program


class TensorName(str):
    """A name, unique in its launch, of a tensor that `operation` computes in pass `pass_number`.

    `is_early`: it holds weights loaded before an earlier operation.
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

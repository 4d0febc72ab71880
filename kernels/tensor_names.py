"""Names of a launch's tensors that know which operation they are for.

To NKI a name is a string. On the simulator it stays the object that it is, so that timelines ask the name of a tensor
which operation, in which pass, an instruction writes or loads for. Nothing is parsed.
"""

from __future__ import annotations

from typing import NewType

OpId = NewType("OpId", int)  # number of an operation through all stages of a program


class TensorName(str):
    """A name, unique in its launch, of a tensor that operation `operation` computes in pass `pass_number`.

    `is_early`: it holds weights that are loaded before an earlier operation.
    """

    operation: OpId
    pass_number: int
    is_early: bool

    def __new__(cls, text: str, operation: OpId, pass_number: int, is_early: bool = False) -> TensorName:
        """Return a name that reads as `text`."""
        name = super().__new__(cls, text)
        name.operation, name.pass_number, name.is_early = operation, pass_number, is_early
        return name

    def __getnewargs__(self) -> tuple[str, OpId, int, bool]:  # type: ignore[override]
        """Return what pickle makes an equal name of."""
        return str(self), self.operation, self.pass_number, self.is_early

"""`import nki` on a machine without Trainium: the decorator and the entry points of NKI 0.6, on the simulator."""

from __future__ import annotations

from ..launch import jit, simulate
from . import isa as isa
from . import language as language
from . import typing as typing

__version__ = "0.6.0+trninfer.simulator"
__all__ = ["isa", "jit", "language", "simulate", "typing"]

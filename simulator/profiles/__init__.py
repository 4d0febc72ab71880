"""Profiles that somebody measured on a chip, in the form of predictions.

measured.py  the form of a measured run
read.py      what neuron-explorer exports, JSON or Parquet
ntff.py      raw profiles, as far as public files show their layout
path.py      engines' table and critical path of the measured run
compare.py   beside the prediction of the same kernel, instruction by instruction
"""

from .compare import Difference, compare
from .measured import MeasuredInstruction, MeasuredPacket, MeasuredRun, ProfileError
from .path import EngineTime, PathStep, critical_path, engines, makers
from .read import read_profile

__all__ = [
    "Difference",
    "EngineTime",
    "MeasuredInstruction",
    "MeasuredPacket",
    "MeasuredRun",
    "PathStep",
    "ProfileError",
    "compare",
    "critical_path",
    "engines",
    "makers",
    "read_profile",
]

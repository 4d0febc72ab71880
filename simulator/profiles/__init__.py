"""Profiles that somebody measured on a chip, in the form of predictions.

read.py      what neuron-explorer exports, JSON or Parquet
path.py      engines' table and critical path of the measured run
compare.py   beside the prediction of the same kernel, instruction by instruction
"""

from .compare import Difference, compare
from .path import EngineTime, PathStep, critical_path, engines, makers
from .read import MeasuredInstruction, MeasuredPacket, MeasuredRun, ProfileError, read_profile

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

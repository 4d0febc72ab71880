"""Profiles measured on a chip, represented in the same form as predictions.

measured.py  the representation of a measured run
read.py      reader of neuron-explorer's exports, in JSON or Parquet
ntff.py      reader of raw profiles, as far as their layout can be inferred from public files
path.py      engine times and critical path of a measured run
compare.py   comparison with the prediction of the same kernel, by instruction
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

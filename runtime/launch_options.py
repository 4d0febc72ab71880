"""Options that specify where and how a network runs, for the command line and the Python interface.

This module imports only small modules.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from .calibration import Calibration

Dtype = Literal["float32", "bfloat16", "float16", "float8_e4m3"]
Target = Literal["trn1", "trn2", "trn3"]
BackendName = Literal["auto", "neuron", "sim"]
LNC = (1, 2)  # allowed numbers of NeuronCores in a logical core
Per = Literal["network", "layer"]
Form = Literal["quickest", "direct"]
EightBitLayers = Literal["inner", "all"]
INSTRUCTIONS = 65_536
"""The default maximum number of instructions of a launch, with loops unrolled.

It is 1.3 % of the 5,000,000 that AWS's compiler accepts (NCC_EBVF030, aws-neuron-sdk issue 819), and takes about 130 MB
in the simulator. VGG-16 has 54,000 instructions for 16 pictures.
"""


@dataclass(frozen=True)
class LaunchOptions:
    """The division of a network into launches, and the limits of a launch.

    Launches are per "network" (as few as possible, with at most `instructions` each) or per "layer". `calibration`
    contains the inputs that determine the scales of float8_e4m3; None selects the network's default inputs.
    `eight_bits` specifies the layers that may be in float8_e4m3: all, or all except the first and the last.
    """

    per: Per = "network"
    instructions: int = INSTRUCTIONS
    # "quickest" uses minimal filtering for 3x3 filters if that is predicted to be faster (docs/convolutions.md);
    # "direct" never uses it
    form: Form = "quickest"
    calibration: Calibration | None = None
    eight_bits: EightBitLayers = "inner"


DEFAULT_LAUNCHES = LaunchOptions()

"""Part of the stand-in for torch_neuronx: NeuronConfig, as documented in
tools/neuron-explorer/how-to-profile-pytorch."""

from dataclasses import dataclass
from enum import Enum


class ProfileMode(Enum):
    DEVICE = 0
    RUNTIME = 1
    CPU_UTIL = 2
    HOST_MEMORY = 3


@dataclass
class NeuronConfig:
    modes: list
    max_events_per_nc: int | None = None
    capture_enabled_for_nc: str | None = None
    profile_output_dir: str | None = None
    neff_cache_dir: str | None = None
    precache_node_info: bool = True

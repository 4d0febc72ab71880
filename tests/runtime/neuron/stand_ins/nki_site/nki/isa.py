"""Part of the stand-in for nki: the simulator's instructions."""

from trninfer.simulator.nki.isa import *  # noqa: F403

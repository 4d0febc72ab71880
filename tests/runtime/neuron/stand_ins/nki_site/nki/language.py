"""Part of the stand-in for nki: the simulator's language."""

from trninfer.simulator.nki.language import *  # noqa: F403

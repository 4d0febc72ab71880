"""Part of the stand-in for nki: the configurations of nki.compiler."""

from trninfer.simulator.nki.compiler import CompileConfig  # noqa: F401

"""Part of the stand-in for nki: the package framework."""

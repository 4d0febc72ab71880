"""Launching kernels: one, again, on several ranks, or all those of a script; the result of a launch."""

"""Launching kernels: single launches, replays, several ranks, and scripts; and the result of a launch."""

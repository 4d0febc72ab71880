"""Launching kernels: single launches, replays, launches on several ranks, and scripts; and the result of a launch."""

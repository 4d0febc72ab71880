"""Launch kernels: single launches, replays, launches on several ranks, and scripts.

Also defines the result of a launch.
"""

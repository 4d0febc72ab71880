"""Runs networks and kernels on a backend and times them, one file a backend.

`backend.choose_backend` comes first: it settles whether kernels run on the simulator before any kernel is imported.
"""

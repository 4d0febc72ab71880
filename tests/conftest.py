"""Shared by all tests: `import nki` finds the simulator; hypothesis has no deadline, because no test asserts a time."""

import os

# One BLAS thread: the tiles of a kernel are too small for more, and threads that wait for a busy core stall.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from hypothesis import settings
from trninfer import simulator

simulator.install()
settings.register_profile("trninfer", deadline=None, max_examples=40)
settings.load_profile("trninfer")

"""Shared by all tests: `import nki` finds the simulator, and hypothesis runs without deadlines (times are not asserted)."""

from hypothesis import settings
from trninfer import simulator

simulator.install()
settings.register_profile("trninfer", deadline=None, max_examples=40)
settings.load_profile("trninfer")

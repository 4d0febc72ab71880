"""Checks that go beyond the limits of the machine: the linter, and sanitizers of memory and of numerics."""

"""Checks beyond the limits of the machine: the linter, and sanitizers for memory and numerics."""

"""Checks beyond the machine's limits: the linter, and sanitizers of memory and of numbers."""

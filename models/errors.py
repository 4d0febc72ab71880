"""Errors that users can cause. Their messages are one line: what is wrong, and where."""

from __future__ import annotations


class TrninferError(Exception):
    """An error that a user can cause; every other exception is a bug in the program."""


class ModelError(TrninferError, ValueError):
    """A network or a model file cannot be used."""


class InputError(TrninferError, ValueError):
    """A picture, or rows of features, cannot be used."""


class ArgumentError(TrninferError, ValueError):
    """An argument of a function is not allowed."""

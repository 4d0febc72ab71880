"""Errors that users can cause. Their messages are one line: what is wrong, and where."""

from __future__ import annotations


class TrninferError(Exception):
    """Anything that a user can cause; every other exception is a fault of the program."""


class ModelError(TrninferError, ValueError):
    """A network or a model file that cannot be used."""


class InputError(TrninferError, ValueError):
    """A picture, or rows of features, that cannot be used."""


class ArgumentError(TrninferError, ValueError):
    """An argument of a function that is not allowed."""

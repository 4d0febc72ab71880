"""Errors that users can cause. Their one-line messages describe the problem and its location."""

from __future__ import annotations


class TrninferError(Exception):
    """An error that a user can cause; every other exception is a bug in the program."""


class ModelError(TrninferError, ValueError):
    """Raised if a network or a model file cannot be used."""


class InputError(TrninferError, ValueError):
    """Raised if a picture or rows of features cannot be used."""


class ArgumentError(TrninferError, ValueError):
    """Raised if an argument of a function is invalid."""

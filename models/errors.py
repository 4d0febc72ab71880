"""Errors that users see: one line each, what is wrong with a model or an input."""


class ModelError(ValueError):
    """A network or a model file that cannot be used; the message is one line for the user."""


class InputError(ValueError):
    """A picture, or rows of features, that cannot be used; the message is one line for the user."""

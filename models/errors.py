"""What is wrong with an input, as one line for the user."""


class InputError(ValueError):
    """A picture, or rows of features, that cannot be used; the message is one line for the user."""

"""The version of trninfer."""

__version__ = "0.1.0"

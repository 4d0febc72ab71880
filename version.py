"""The version of trninfer."""

__version__ = "0.2.0"

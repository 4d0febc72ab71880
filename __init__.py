"""trninfer: small networks on an AWS Trainium NeuronCore, with kernels that can be read and times that can be traced."""

from .version import __version__

__all__ = ["__version__"]

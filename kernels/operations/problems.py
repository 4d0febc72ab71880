"""Derive the parts of a convolution's problem from an operation of a launch and the value that it reads."""

from ..convolution.problem import Filters, FilterSource, Finish, Images


def images_of(value, item_bytes):
    """Return the images of a value. Images that are packed together count as channels of a single image."""
    return Images(value.images, value.rows, value.columns, item_bytes)


def filters_of(operation, value, outputs):
    """Return the filters that an operation applies to a value. `outputs`: the number of filters."""
    channels = value.channels * value.packed
    return Filters(channels, outputs, operation.kernel, operation.taps, FilterSource.NETWORK)


def finish_of(operation, pool_size=1):
    """Return the pooling and activation of an operation."""
    return Finish(pool_size, operation.activation.name, operation.activation.parameters)

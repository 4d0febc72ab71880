"""The parts of a convolution's problem that are determined by an operation of a launch and the value it reads."""

from ..convolution.problem import Filters, FilterSource, Finish, Images


def images_of(value, item_bytes):
    """Return the images of a value; images packed together count as the channels of a single image."""
    return Images(value.images, value.rows, value.columns, item_bytes)


def filters_of(operation, value, outputs):
    """Return the filters of an operation applied to a value; `outputs` is the number of filters."""
    channels = value.channels * value.packed
    return Filters(channels, outputs, operation.kernel, operation.taps, FilterSource.NETWORK)


def finish_of(operation, pool_size=1):
    """Return the pooling and activation of an operation."""
    return Finish(pool_size, operation.activation.name, operation.activation.parameters)

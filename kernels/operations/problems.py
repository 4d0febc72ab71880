"""The parts of a convolution's problem that an operation of a launch and the value it reads determine."""

from ..convolution.problem import Filters, FilterSource, Finish, Images


def images_of(value, item_bytes):
    """Return the images of a value; packed images count as channels of one."""
    return Images(value.images, value.rows, value.columns, item_bytes)


def filters_of(operation, value, outputs):
    """Return the filters of an operation on a value, `outputs` of them."""
    channels = value.channels * value.packed
    return Filters(channels, outputs, operation.kernel, operation.taps, FilterSource.NETWORK)


def finish_of(operation, pool_size=1):
    """Return the pooling and activation of an operation."""
    return Finish(pool_size, operation.activation.name, operation.activation.parameters)

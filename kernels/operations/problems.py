"""The problem that an operation of a launch is for the kernels of convolutions."""

from ..convolution.problem import Problem


def problem_of(operation, value, *, outputs, output, **fields):
    """Return the problem of an operation on a value: `outputs` channels of (rows, columns) before pooling."""
    return Problem(
        batch=value.images,
        in_channels=value.channels * value.packed,
        height=value.rows,
        width=value.columns,
        out_channels=outputs,
        kernel=operation.kernel,
        taps=operation.taps,
        activation=operation.activation.name,
        parameters=operation.activation.parameters,
        out_rows=output[0],
        out_columns=output[1],
        packed=True,
        from_host=True,
        **fields,
    )

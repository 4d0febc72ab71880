"""`trninfer bench`: the command, and one module each for networks, kernels and published suites."""

"""`trninfer bench`: networks, single kernels and published suites, a file each, and the command over them."""

"""Measures single kernels at a shape and published suites, and compares the chip with the simulator."""

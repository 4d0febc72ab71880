"""Measuring: single kernels at a shape, published suites, and the chip beside the simulator."""

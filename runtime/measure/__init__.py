"""Measure single kernels and published suites, and compare the chip with the simulator."""

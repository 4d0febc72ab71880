"""Tiles, packing onto partitions, and windows, for all families of kernels."""

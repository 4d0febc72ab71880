"""Tiles, packing onto partitions, and windows, shared by all families of kernels."""

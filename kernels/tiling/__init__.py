"""Tiles, packing along the partitions, and windows, shared by all kernel families."""

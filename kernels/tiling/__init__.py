"""How tensors are cut into tiles, packed onto partitions and swept by windows: for all families."""

"""Tensors as kernels see them: strided views of a memory, their indices, and what Python's operators say."""

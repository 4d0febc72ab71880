"""Tensors as kernels see them: strided views of a memory, indices, and errors for Python's operators."""

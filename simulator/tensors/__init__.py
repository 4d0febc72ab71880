"""The tensors of kernels: strided views of memory, indices, and errors for unsupported Python operators."""

"""The Trainium chip: detecting it, and compiling, running and timing kernels on it."""

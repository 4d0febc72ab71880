"""The Trainium chip: detect it, and compile, run and time kernels on it."""

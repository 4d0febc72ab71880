"""The self-test of a machine: it compares each kernel, at a small and an odd size, and networks on samples with the
golden model."""

"""The self-test of a machine. It runs each kernel at a small and an odd size, and networks on samples, and compares the
results with the golden model."""

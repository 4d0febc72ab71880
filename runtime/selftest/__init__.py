"""Self-test of a machine: each kernel at a small and an odd size against the golden model, then networks on samples."""

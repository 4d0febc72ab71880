"""The Trainium chip: what this machine has of it, compiling, running and timing kernels there."""

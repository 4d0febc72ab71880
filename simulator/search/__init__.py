"""Tools for choosing between versions of a kernel: ranking, sweeps of constants, and baselines of predicted times."""

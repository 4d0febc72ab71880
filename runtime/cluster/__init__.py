"""Batches shared out over workers, on this machine or on several, by Ray."""

"""Answers on their way to `--output`: a batch at a time, with a journal to go on from after an interruption."""

"""Answers as they come: a batch at a time to the output, with a journal to go on from after an interruption."""

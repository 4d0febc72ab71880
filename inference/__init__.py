"""From files to answers: find pictures and rows of features, read them in batches, run them and yield an answer for
each.

This package does not know about terminals: problems are raised, and progress is reported through callbacks.
"""

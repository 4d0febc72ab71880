"""Find pictures and rows of features, read them in batches, run them through a network, and yield a prediction for
each.

This package does not use the terminal: errors are raised as exceptions, and progress is reported through callbacks.
"""

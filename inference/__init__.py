"""From files to answers: finds pictures and rows of features, reads them in batches, runs them and yields an answer for
each.

Nothing here knows of a terminal: problems are raised, and progress is reported by callbacks.
"""

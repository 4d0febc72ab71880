"""Files into answers: pictures and rows of features, found, read in batches, run, and answered one by one.

Nothing here knows of a terminal: what goes wrong is raised, and what takes long calls back.
"""

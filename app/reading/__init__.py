"""What a command reads: pictures and rows of features, found, opened and decoded in batches."""

"""Scripts that made the bundled digit networks, their samples and their cards."""

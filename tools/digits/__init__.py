"""Scripts that generate the bundled digit networks, their samples and their cards."""

"""Scripts that generate the bundled weights, samples and docs. See tools/README.md."""

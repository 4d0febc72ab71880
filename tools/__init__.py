"""Scripts that made the bundled weights, samples and docs: data, rendering, training, evaluation. See
tools/README.md."""

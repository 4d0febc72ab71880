"""What made the bundled weights and samples: data, rendering, training, evaluation. See tools/README.md."""

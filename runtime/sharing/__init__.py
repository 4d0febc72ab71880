"""Several processes: batches shared out over NeuronCores, and the simulator beside the chip."""

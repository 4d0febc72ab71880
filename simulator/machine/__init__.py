"""Hardware model: chips and their limits, data types, memories, registers, and pairs and groups of cores."""

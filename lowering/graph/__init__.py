"""The graph of a network: its operations, their inputs, and the memory that holds their values."""

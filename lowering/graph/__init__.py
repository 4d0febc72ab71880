"""The graph of a network: its operations, what they read and where their values are; its construction from layers."""

"""The instructions of the NeuronCore, a file an engine.

Each is one function with the signature of `nki.isa`. It reads in one order: what it checks, what it costs (the `issue`
to the core), and what it computes.
"""

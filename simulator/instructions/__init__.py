"""The instructions of the NeuronCore, in files by what they do: copies and arithmetic, selections, moves of data.

Each is one function with the signature of `nki.isa`. It reads in one order: what it checks, what it costs (the `issue`
to the core), and what it computes.
"""

"""The instructions of the NeuronCore, in files by what they do: copies and arithmetic, selections, moves of data.

Each is one function with the signature of `nki.isa`, whose annotations declare what its operands may be and whose
decorator declares its engines, its cost and what goes beyond single operands (declaration.py). Under `@instruction` the
body is what it computes; under `@declared` the function also issues itself.
"""

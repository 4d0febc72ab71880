"""The instructions of the NeuronCore, one file for each kind: copies and arithmetic, selections, data movement.

Each is one function with the signature of `nki.isa`. Its annotations declare the allowed operands; its decorator
declares its engines, its cost and the rules that involve several operands (declaration.py). Under `@instruction` the
body computes the values; under `@declared` the function also issues the instruction itself.
"""

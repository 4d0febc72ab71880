"""The instructions of the NeuronCore, with one module per kind (copies and arithmetic, selections, data movement).

Each instruction is a function with the signature documented by `nki.isa`. Its annotations declare the allowed operands,
and its decorator declares the engines, the cost and the rules that involve several operands (declaration.py). If the
decorator is `@instruction`, the function only computes the values; if it is `@declared`, the function also issues the
instruction.
"""

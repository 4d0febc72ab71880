"""Lower a network to kernel programs: from its layers to typed operations, their weights, and the launches they run in.

rules           lowering rules: each kind of layer as operations of a graph
graph           operations, their inputs, and the memory that holds their values; passes never change node ids
passes          graph transformations, one class each, in the order of their dependencies
decisions       the choices about a launch, and the questions that passes ask
pipeline        from the graph of some layers to a launch, given decisions
candidates      decisions that are worth simulating, selected by the costs of single operations
search          the fastest launch among the candidates and their neighbours
cost_model      the cost of a candidate, as predicted by the simulator
launch_plan     one cached launch for each batch size
launch_sequence the launches of a network
weights         the arrays of weights that a launch reads
emit            the program that `kernels/network.py` runs
"""

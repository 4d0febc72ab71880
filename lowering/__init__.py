"""Lower a network to kernel programs: from its layers to typed operations, their weights, and the launches they run in.

graph           the operations of a network, their inputs, and the memory that holds their values
rules           lowering rules, which convert each kind of layer to operations of a graph
passes          graph transformations, one class each, in the order of their dependencies
decisions       the choices that define a launch, and the questions that passes ask
emission        lays out the arrays of weights and emits the program that `kernels/network.py` runs
pipeline        lowers the graph of some layers to a launch, as the decisions specify
search          finds the fastest launch; costs are predicted with the simulator
launch_plan     plans one launch for each batch size, and caches the plans
launch_sequence the launches of a network
"""

"""Lower a network to kernel programs: from its layers to typed operations, their weights, and the launches they run in.

rules           lowering rules, which convert each kind of layer to operations of a graph
graph           the operations, their inputs, and the memory that holds their values; passes never change node ids
passes          graph transformations, one class each, in the order of their dependencies
decisions       the choices that define a launch, and the questions that passes ask
pipeline        lowers the graph of some layers to a launch, as the decisions specify
candidates      the decisions worth simulating, selected by the costs of individual operations
search          finds the fastest launch among the candidates and their neighbours
cost_model      predicts the cost of a candidate with the simulator
launch_plan     plans one launch for each batch size, and caches the plans
launch_sequence the launches of a network
weights         lays out the arrays of weights that a launch reads
emit            emits the program that `kernels/network.py` runs
"""

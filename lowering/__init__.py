"""A network becomes kernel programs: from its layers to typed operations, their weights, and the launches they run in.

rules        each kind of layer as operations of a graph
graph        operations, what each reads, where its value is; nodes have ids that no pass changes
passes       steps from a graph to a graph, a class each, in the order of their needs
decisions    the choices about a launch, and the questions of passes
pipeline     from the graph of some layers to a launch, by decisions
candidates   decisions that are worth walking, by the prices of single operations
search       the quickest launch of the candidates and what is near it
price        a candidate's time, by the simulator's clock
launch_plan  one launch for each size of batch, remembered
launch_sequence the launches of a network
weights      the arrays that a launch reads
emit         the program that `kernels/network.py` runs
"""

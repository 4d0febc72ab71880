"""A network becomes kernel programs: from its layers to typed operations, their weights, and the launches they run in.

rules        each kind of layer as operations of a graph
passes       over that graph, one file each: split tails, load input, pad channels, pack rows, split phases, split
             means, load taps, pack images, place, group the input, split columns, add margins, choose forms, narrow
             values, pack taps, turn scores, share sums
price        a candidate's time, by the simulator's clock
launch_plan  one launch: the quickest of the candidates
network_plan the launches of a network
weights      the arrays that a launch reads
emit         the program that `kernels/network.py` runs
"""

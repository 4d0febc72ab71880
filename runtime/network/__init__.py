"""A network as one launch: from its layers to the program, weights and passes that `kernels/network.py` takes.

In the order in which a network goes through them:

    drawing   its layers, each kind in its way, as those of the kernel (program), added to those before (drawn);
        slices and shuffles are an order of channels (channels)
    cut       as few launches as SBUF and the number of instructions allow, each with a plan of its own
    plan      the quickest of the ways in which the layers of a launch may run, for the batch that came:
        tails, widen, fold    layers written otherwise, so that few channels fill the partitions
        given, taps           what the host prepares of the input
        together              images side by side on the partitions
        forms, filters        how convolutions multiply
        layout, memory        where weights lie, and what SBUF holds
        estimate              about how long that takes
"""

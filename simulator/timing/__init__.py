"""Schedule programs on the engines of a NeuronCore and predict their times. Modules, from top to bottom:

constants/        every timing constant for each target, with its source and the rows to which it was fitted, if any
costs.py          costs of instructions; the instruction declarations refer to its methods by name
transfers.py      bytes and descriptors of a DMA instruction
dma.py            time of a DMA on the 16 engines
capacity.py       peak usage of SBUF and PSUM, in program order
dependencies.py   dependencies between instructions; writes that start a new version of a tile
buffers.py        allocation of SBUF and PSUM buffers to tile versions
ports.py          contention between engines for the ports of SBUF and PSUM
clock.py          the Tensor Engine's cold and warm clock
schedule.py       the discrete-event simulation, and its assumptions about the compiler
scheduled.py      the result of the simulation: times, and the reason for each instruction's start time
critical_path.py  the resource on which each nanosecond of a schedule was spent
what_if.py        rescheduling of a program on a machine with one faster resource
memory_use.py     contents of SBUF and PSUM over time, tile by tile
trace.py          timelines for Perfetto

Not modelled: spills and other instructions that the compiler adds, instruction fetch, register and address arithmetic,
contention between the Vector Engine's fast modes and GpSimd (trn2 and newer), refresh and other HBM effects (except
channel conflicts between short elements), traffic of other cores, and power throttling. The schedule is one that a good
compiler would achieve, not the output of a particular version of neuronx-cc.
"""

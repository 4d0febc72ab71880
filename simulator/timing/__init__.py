"""Schedule and timing of programs on the engines of a NeuronCore. Modules, from top to bottom:

constants/        every number, for each target, with its source; which were fitted, and to what
costs.py          costs of instructions; their declarations name its methods
transfers.py      bytes and descriptors of a DMA instruction
dma.py            time of a DMA on the 16 engines
capacity.py       peak use of SBUF and PSUM, in program order
dependencies.py   dependencies between instructions; writes that start a new version of a tile
buffers.py        allocation of SBUF and PSUM buffers to tile versions
ports.py          conflicts of engines at the ports of SBUF and PSUM
clock.py          the Tensor Engine's cold and warm clock
schedule.py       the discrete-event simulation, and its assumptions about the compiler
scheduled.py      its result: times, and the reason for each instruction's start
critical_path.py  the resource that each nanosecond of a schedule was spent on
what_if.py        a program on a machine with one faster resource
memory_use.py     contents of SBUF and PSUM over time, tile by tile
trace.py          timelines for Perfetto

Not modelled: spills and other instructions that the compiler adds, instruction fetch, register and address arithmetic,
contention between the Vector Engine's fast modes and GpSimd (trn2 and newer), refresh and other effects of HBM but
channels that short elements meet at, traffic of other cores, and power throttling. Scheduling is what a good
compiler would reach, not what a version of neuronx-cc does.
"""

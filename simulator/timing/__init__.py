"""Schedule and timing of programs on the engines of a NeuronCore. Modules, from top to bottom:

constants/        every number, for each target, with its source; which were fitted, and to what
costs.py          costs of instructions; their declarations name its methods
transfers.py      bytes and descriptors of a DMA instruction
dma.py            time of a DMA on the 16 engines
capacity.py       peak use of SBUF and PSUM, in program order
dependencies.py   dependencies between instructions; writes that start a new version of a tile
buffers.py        SBUF and PSUM buffers for versions, as far as there is room
ports.py          engines that take turns at SBUF and PSUM
clock.py          the Tensor Engine's clock, cold and warm
schedule.py       the discrete-event simulation, and what it assumes of the compiler
scheduled.py      its result: times, and why each instruction came when it did
critical_path.py  resource that each nanosecond of a schedule was spent on
what_if.py        a program on a machine one of whose resources is faster
memory_use.py     contents of SBUF and PSUM over time, tile by tile
trace.py          timelines for Perfetto

Not modelled: spills and other instructions that the compiler adds, instruction fetch, register and address arithmetic,
contention between the Vector Engine's fast modes and GpSimd (trn2 and newer), refresh and other effects of HBM but
channels that short elements meet at, traffic of other cores, and power throttling. Scheduling is what a good
compiler would reach, not what a version of neuronx-cc does.
"""

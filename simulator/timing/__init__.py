"""When the engines of a NeuronCore would run a program, read from top to bottom:

constants/        every number, for each target, with its source; which were fitted, and to what
costs.py          what an instruction takes of its engine; declarations of instructions name its methods
transfers.py      what a DMA instruction makes the queues move
dma.py            what a DMA takes of the 16 engines
capacity.py       whether a program fits SBUF and PSUM, in its own order
dependencies.py   what each instruction waits for; which writes start a new version of a tile
buffers.py        SBUF and PSUM buffers for versions, as far as there is room
ports.py          engines that take turns at SBUF and PSUM
clock.py          the Tensor Engine's clock, cold and warm
schedule.py       the discrete-event simulation, and what it assumes of the compiler
scheduled.py      its result: times, and why each instruction came when it did
critical_path.py  what each nanosecond of a schedule was spent on
what_if.py        a program on a machine one of whose resources is faster
memory_use.py     what SBUF and PSUM hold over the time, tile by tile
trace.py          timelines for Perfetto

Not modelled: spills and other instructions that the compiler adds, instruction fetch, register and address arithmetic,
contention between the Vector Engine's fast modes and GpSimd (trn2 and newer), refresh and other effects of HBM but
channels that short elements meet at, traffic of other cores, and power throttling. Scheduling is what a good
compiler would reach, not what a version of neuronx-cc does.
"""

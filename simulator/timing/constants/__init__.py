"""All constants of the timing model for each target: value, unit, source and confidence.

movement.py   launch, control, DMA and HBM
engines.py    instruction costs on the Tensor, Vector, Scalar and GpSimd Engines
table.py      combines both into one table, and defines `machine(target)`, which returns the column of a target

The mark of a constant states its origin:

documented    by AWS (or by a JEDEC standard)
measured      on hardware, read from public profiles
third-party   from a published calibration
fitted        to the latencies of kernels; `rows` contains their ids in the measurement files of benchmarks/ (k.. for
              kernels, i.. for instructions)
scaled        not published, but taken from another target; every prediction that uses the constant says so

Abbreviations of sources in aws-neuron-sdk: PG is nki_perf_guide; A1, A2 and A3 are the architecture guides of trn1,
trn2 and trn3; BW is nki-dma-bandwidth-guide; DO is nki-dma-overview; DG is nki-dge; KO is kernel-optimization; SUM is
the profiler's overview page; ISA is the docstrings of nki.isa; OLD is the docstrings of nki.isa in SDK 2.26. V is
voyager-compiler's published hardware calibration of trn2.
"""

from .entry import MARKS, Constant, documented, fitted, measured, scaled, third_party
from .table import (
    TABLE,
    TARGETS,
    Machine,
    change,
    changed,
    constants,
    fitted_constants,
    machine,
    override,
    overrides,
    scaled_note,
)

__all__ = [
    "MARKS",
    "TABLE",
    "TARGETS",
    "Constant",
    "Machine",
    "change",
    "changed",
    "constants",
    "documented",
    "fitted",
    "fitted_constants",
    "machine",
    "measured",
    "override",
    "overrides",
    "scaled",
    "scaled_note",
    "third_party",
]

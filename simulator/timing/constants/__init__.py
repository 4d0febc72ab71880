"""Every number of the timing model, for each target: value, unit, source and confidence.

movement.py   launch, control, DMA and HBM
engines.py    instruction costs on the Tensor, Vector, Scalar and GpSimd Engines
table.py      both as one table, and `machine(target)`, a target's column of it

Marks: `documented` by AWS (or by a JEDEC standard); `measured` on hardware, read off public profiles; `third-party`, a
published calibration; `fitted` to kernel latencies, whose ids `rows` names (of the project's measurement files, k..
kernels, i.. instructions); `scaled`, not published: taken from another target, which is stated with every prediction
that uses it.

Sources in short, of aws-neuron-sdk: PG nki_perf_guide, A1 A2 A3 the architecture guides of trn1, trn2 and trn3, BW
nki-dma-bandwidth-guide, DO nki-dma-overview, DG nki-dge, KO kernel-optimization, SUM the profiler's overview page, ISA
the docstrings of nki.isa, OLD those of SDK 2.26. V is voyager-compiler's published hardware calibration of trn2.
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

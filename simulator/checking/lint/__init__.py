"""Static checks of NKI kernels, which find errors that AWS's compiler would report, without a compiler or a chip.

    from trninfer.simulator.checking.lint import check_file
    for finding in check_file("kernel.py"):
        print(finding)                       # path:line: rule: message

The linter checks every function decorated with nki.jit, and every function and class that these functions use,
including those in other files. It checks Python code that tracing affects, calls of the NKI 0.7 API, names of earlier
dialects, and the memories, dtypes and sizes of tensors. No code is imported or executed. `RULES` describes each rule in
one line.
"""

from .checker import Examination, check_file, check_source, examine_file
from .rules import RULES, Finding
from .source import SourceError, read_source

__all__ = [
    "RULES",
    "Examination",
    "Finding",
    "SourceError",
    "check_file",
    "check_source",
    "examine_file",
    "read_source",
]

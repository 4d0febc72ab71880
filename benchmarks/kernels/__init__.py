"""Kernels that run single instructions or a transposition for measurement, and random chains of instructions.

Importing this package ensures that `import nki` works.
"""

from ...kernels import use_nki

use_nki()

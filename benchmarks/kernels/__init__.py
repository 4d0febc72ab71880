"""Kernels that show single instructions or a transposition at work, and random chains of instructions.

Importing this package ensures that `import nki` works.
"""

from ...kernels import use_nki

use_nki()

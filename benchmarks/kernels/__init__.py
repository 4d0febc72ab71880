"""The kernels whose times were published, in NKI 0.6 and with the structure that was measured.

They are slower than the kernels of `trninfer.kernels` wherever the measured ones were: what counts is that the same
instructions and DMAs run in the same order. Importing this package makes sure that `import nki` works.
"""

from ...kernels import use_nki

use_nki()

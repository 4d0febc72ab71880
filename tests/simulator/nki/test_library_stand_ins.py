"""The stand-ins of docs/nki-library.md provide everything that nki-library's tests import from AWS's packages."""

import subprocess
import sys

from console_blocks import ROOT, Written, read_steps

IMPORTS = """
import stand_ins
import nki_cpu_simulator.nki.builtin, nki_cpu_simulator.nki.tensor
import nki_cpu_simulator.nki.compiler as compiler
import nki_cpu_simulator.nki.isa as nisa
import nki_cpu_simulator.nki.isa.constants as constants
import nki_cpu_simulator.nki.language as nl
import nki_cpu_simulator.nki.language.dtypes as dtypes
import nki_cpu_simulator.nki.typing as typing
from nki_cpu_simulator import nki
from neuron_dtypes import bfloat16, finfo, is_float_type, sizeinbytes, static_cast
from nki.compiler.frontend import NKIFrontend, ParserFrontend
from test.utils.perf_analysis_private import analyze_trace
from test.utils.scripts.remote_lock_scripts import LockResult, LockStatus
assert is_float_type(bfloat16) and not is_float_type("int8") and sizeinbytes(bfloat16) == 2
assert static_cast([1, 2], bfloat16).dtype == bfloat16 and nki.cpu_simulate is nki.simulate and nisa.tensor_copy
"""


def test_the_page_lists_the_modules_that_the_tests_import(tmp_path):
    (written,) = [step for step in read_steps(ROOT / "docs" / "nki-library.md") if isinstance(step, Written)]
    written.write(tmp_path)
    found = subprocess.run([sys.executable, "-c", IMPORTS], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr

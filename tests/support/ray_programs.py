"""Programs with a separate Ray that listens only on the loopback address."""

from __future__ import annotations

import os
import subprocess
import sys

START = """
import os
os.environ.update({variables!r})
import ray
ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="ERROR",
    object_store_memory=100 << 20)
"""


def run_with_ray(program: str) -> str:
    """Return the output of a program."""
    variables = {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        # the default is 5, three times, which is too short for its imports under load
        "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "60",
        "OMP_NUM_THREADS": "1",
    }
    script = START.format(variables=variables) + program
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, env=os.environ)
    assert done.returncode == 0, done.stderr
    return done.stdout

"""A local Ray cluster with several nodes, for all tests in this folder; its workers import the stand-ins."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from shared_runs import STAND_INS

VARIABLES = {
    "PYTHONPATH": os.pathsep.join(filter(None, [str(STAND_INS), os.environ.get("PYTHONPATH")])),
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # use only the loopback address
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "2000",
    "RAY_health_check_failure_threshold": "4",
}
NODE = {"object_store_memory": 80 << 20, "include_dashboard": False}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Start a head without CPUs and two nodes with two CPUs each, and connect this process."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in VARIABLES.items():
            patch.setenv(name, value)
        import ray
        from ray.cluster_utils import Cluster

        nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **NODE})
        nodes.add_node(num_cpus=2, resources={"neuron_cores": 2}, **NODE)
        nodes.add_node(num_cpus=2, **NODE)
        ray.init(address=nodes.address, log_to_driver=False, logging_level=logging.ERROR)
        yield nodes
        ray.shutdown()
        nodes.shutdown()


@pytest.fixture(autouse=True)
def stand_ins(monkeypatch):
    monkeypatch.syspath_prepend(str(STAND_INS))
    yield
    sys.modules.pop("worker_backends", None)

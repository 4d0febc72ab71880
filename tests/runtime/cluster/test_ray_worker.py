"""Batches on Ray actors on two nodes: results, and failures of workers, nodes and inputs."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pytest
from shared_runs import FILL_ONCE, KILL, KILL_ONCE, REFUSE, SLOW, assert_same, collect, inputs, run_alone, small_model
from trninfer.runtime.backend import BackendUnavailable, KernelError
from trninfer.runtime.cluster.ray_worker import _reason
from trninfer.runtime.launch_options import LaunchOptions
from trninfer.runtime.session import split_batches
from trninfer.runtime.workers.pool import WorkerDied
from trninfer.runtime.workers.shared_session import share_out

DIED = "The actor died because of an error raised in its creation task, "
BEGUN_BADLY = f"""{DIED}\x1b[36mray::Worker.__init__()\x1b[39m (pid=3326, actor_id=37bd, repr=<x object at 0x7f22>)
RuntimeError: The actor with name Worker failed to import on the worker. Libraries may be missing:

Traceback (most recent call last):
  File "trninfer/__init__.py", line 1, in <module>
ModuleNotFoundError: No module named 'trninfer'"""


def parent(process: int) -> int:
    """Return the parent process."""
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.fixture
def shared(cluster, tmp_path):
    import worker_backends

    opener = functools.partial(worker_backends.open_plain, tmp_path)
    return functools.partial(
        share_out, small_model(), address=cluster.address, opener=opener, launches=LaunchOptions("layer"), backend="sim"
    )


@pytest.mark.slow
@pytest.mark.parametrize("row", [1.0, SLOW, KILL_ONCE, FILL_ONCE])
def test_answers_are_those_of_one_process_although_a_worker_ends(shared, row) -> None:
    x = inputs(40)
    x[5, 0] = row
    warnings: list[str] = []
    with shared(workers=2, warn=warnings.append) as session:
        run = collect(session, split_batches(x, 4))
    assert_same(run, run_alone(x, 4))
    assert len(warnings) == (row in (KILL_ONCE, FILL_ONCE))
    assert all("its inputs go to another" in line and "\n" not in line for line in warnings)


@pytest.mark.slow
def test_errors_of_inputs_are_returned(shared) -> None:
    x = inputs(12)
    x[5, 0] = KILL
    with shared(workers=2) as session:
        assert list(collect(session, split_batches(x, 4)).failures) == [5]
        x[5, 0] = REFUSE
        with pytest.raises(KernelError, match="a kernel refused"):
            collect(session, split_batches(x, 4))


@pytest.mark.slow
def test_a_lost_node_loses_no_answer(cluster, shared) -> None:
    node = cluster.add_node(num_cpus=2, object_store_memory=80 << 20)
    its_process = node.all_processes["raylet"][0].process.pid
    x = inputs(800)
    x[::4, 0] = SLOW
    warnings: list[str] = []
    left = 200  # batches
    with shared(workers=3, warn=warnings.append) as session:  # one on each node

        def batches():
            nonlocal left
            for batch in split_batches(x, 4):
                if left > 10 and any(parent(process) == its_process for process in session.processes()):
                    left = 10
                    cluster.remove_node(node, allow_graceful=False)
                if not left:
                    return
                left -= 1
                taken.append(batch)
                yield batch

        taken: list[np.ndarray] = []
        run = collect(session, batches())
    assert_same(run, run_alone(np.concatenate(taken), 4))
    # Ray may also start a worker on the lost node before it knows of the loss.
    assert len(taken) < 200 and any("its inputs go to another" in line for line in warnings)


@pytest.mark.slow
def test_another_version_on_a_worker_is_refused(shared, monkeypatch) -> None:
    monkeypatch.setattr("trninfer.runtime.cluster.ray_worker.__version__", "9.9")
    with pytest.raises(BackendUnavailable, match=r"has trninfer .*, but this machine has 9\.9"), shared(workers=1):
        pass


@pytest.mark.slow
def test_on_a_chip_each_worker_sees_a_core_of_its_own(shared) -> None:
    said: list[str] = []
    with shared(workers=2, backend="neuron", progress=said.append) as session:
        x = inputs(40)
        x[::4, 0] = SLOW
        run = collect(session, split_batches(x, 4))
    assert sum(run.worker_us.values()) == pytest.approx(10 * 4 * 2.0)
    assert sorted(line.partition(": ")[2] for line in said) == ["sees core 0", "sees core 1"]


@pytest.mark.slow
def test_a_cluster_reports_how_many_workers_fit(shared) -> None:
    with shared() as session:
        assert session.workers == 4


@pytest.mark.slow
def test_a_cluster_without_room_is_reported(shared, monkeypatch) -> None:
    with shared(workers=1, backend="neuron") as first, shared(workers=1, backend="neuron") as second:
        assert first.info == second.info
        monkeypatch.setattr("trninfer.runtime.workers.shared_session.START_SECONDS", 1.0)
        with pytest.raises(WorkerDied, match="the cluster has no free resources"), shared(workers=1, backend="neuron"):
            pass  # both cores of the cluster are in use


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Task was killed due to the node running low on memory.\nMemory on the node was 7 GB", "Task was killed due"),
        ("\n  The actor died unexpectedly before finishing this task.\n\tclass_name: Worker", "The actor died unexp"),
        ("\tclass_name: Worker\n\tactor_id: 1", "class_name: Worker"),
        ("", "ValueError"),
    ],
)
def test_the_line_that_reports_most(text, reason) -> None:
    assert _reason(ValueError(text)).startswith(reason)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (BEGUN_BADLY, "ModuleNotFoundError: No module named 'trninfer'"),
        (
            BEGUN_BADLY.partition("\n")[0],
            "The actor died because of an error raised in its creation task, ray::Worker.__init__()",
        ),
        ("x" * 50_000, "x" * 200),
    ],
)
def test_no_colours_and_no_addresses_of_objects_are_reported(said, told) -> None:
    assert _reason(ValueError(said)) == told

"""--cores and --cluster: commands on several local processes, and on a Ray cluster."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import trninfer
from small_detectors import detector
from small_segmenters import save_colours
from traps import set_traps, sprung
from trninfer.models import save_model
from trninfer.runtime.neuron import environment
from trninfer.runtime.workers import shared_session
from trninfer.runtime.workers.shared_session import WINDOW

SIM_JSON = ("--backend", "sim", "--format", "json")
FOLDERS = (Path(__file__).parent / "stand_ins", Path(__file__).parents[1] / "runtime" / "neuron" / "stand_ins")


@pytest.fixture(scope="module")
def ray():
    """Connect to a local Ray cluster with two workers and one NeuronCore for each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([*map(str, FOLDERS), *filter(None, [os.environ.get("PYTHONPATH")])]))
        for name, value in (("RAY_USAGE_STATS_ENABLED", "0"), ("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")):
            patch.setenv(name, value)
        import ray

        options = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
        ray.init("local", num_cpus=2, resources={"neuron_cores": 2}, object_store_memory=100 << 20, **options)
        yield ray
        ray.shutdown()


@pytest.fixture
def data(tmp_path) -> Path:
    np.random.default_rng(0).standard_normal((20, 6)).astype("<f4").tofile(tmp_path / "x.bin")
    return tmp_path / "x.bin"


@pytest.mark.parametrize("verify", [pytest.param((), marks=pytest.mark.slow), ("--verify",)])
def test_cores_of_the_simulator(cli, feature_model, data, verify) -> None:
    arguments = ("ffnn", "--data", data, "--model", feature_model, "--format", "json", "--batch-size", 1, *verify)
    one = cli(*arguments, "--backend", "sim", "--quiet").json()
    outcome = cli(*arguments, "--backend", "sim", "--cores", 2, "--quiet")
    several = outcome.json()
    assert outcome.status == 0 and outcome.err == ""
    assert several["predictions"] == one["predictions"] and "cores" not in one
    assert several["layers"] == one["layers"]
    assert several["cores"]["count"] == 2
    assert several["cores"]["elapsed_us"] == max(several["cores"]["worker_us"])
    assert sum(several["cores"]["worker_us"]) == pytest.approx(one["total_us"])
    assert (several["verify"] is not None) == bool(verify)


def test_pictures_over_cores_in_order_with_bad_ones_reported(cli, pictures, picture_model) -> None:
    compare_pictures(cli, pictures, picture_model, ("--cores", 2))


@pytest.mark.slow
@pytest.mark.parametrize("how", [("--cluster", "auto"), ("--cluster", "auto", "--ship")])
def test_pictures_over_a_cluster_in_order_with_bad_ones_reported(cli, ray, pictures, picture_model, how) -> None:
    compare_pictures(cli, pictures, picture_model, how)


@pytest.fixture
def finders(tmp_path) -> dict[str, Path]:
    """Return the model file for each of the commands detect and segment."""
    made = detector()
    save_model(tmp_path / "boxes.safetensors", made.network, made.tensors)
    return {"detect": tmp_path / "boxes.safetensors", "segment": save_colours(tmp_path / "maps.safetensors")}


@pytest.mark.slow
@pytest.mark.parametrize("command", ["detect", "segment"])
@pytest.mark.parametrize(
    "how", [("--cores", 2), pytest.param(("--cluster", "auto", "--cores", 2), marks=pytest.mark.slow)]
)
def test_boxes_and_maps_over_workers(cli, request, pictures, finders, tmp_path, command, how) -> None:
    """The answers are the same as from one process, an interrupted run is resumed, and pictures are drawn."""
    if "--cluster" in how:
        request.getfixturevalue("ray")
    arguments = ("--model", finders[command], "--batch-size", 1, "--backend", "sim", "--format")
    one = cli(command, pictures, *arguments, "json").json()
    several = cli(command, pictures, *arguments, "json", *how, "--save", tmp_path / "saved")
    assert several.status == 0 and several.json()["predictions"] == one["predictions"]
    assert all(answer.get("boxes") or answer.get("areas") for answer in one["predictions"])
    assert len(list((tmp_path / "saved").iterdir())) == len(one["predictions"]) * (2 if command == "segment" else 1)
    whole, parts = tmp_path / "whole.ndjson", tmp_path / "parts.ndjson"
    cli(command, pictures, *arguments, "ndjson", "--output", whole)
    cli(command, pictures / "0.png", *arguments, "ndjson", "--output", parts)
    resumed = cli(command, pictures, *arguments, "ndjson", "--output", parts, "--resume", *how)
    assert resumed.status == 0 and "continuing from 1 answer" in resumed.err
    lines = [[line for line in path.read_text().splitlines() if '"prediction"' in line] for path in (whole, parts)]
    assert lines[0] == lines[1]


def compare_pictures(cli, pictures, picture_model, how) -> None:
    (pictures / "1a.png").write_text("no picture", encoding="utf-8")
    arguments = ("classify", pictures, "--model", picture_model, "--batch-size", 1, "--backend", "sim")
    one = cli(*arguments, "--format", "json").json()
    outcome = cli(*arguments, "--format", "json", *how)
    several = outcome.json()
    assert outcome.status == 2 and several["errors"] == one["errors"] and len(one["errors"]) == 1
    assert several["predictions"] == one["predictions"] and several["layers"] == one["layers"]
    table = cli(*arguments, *how)
    assert "2 cores ran concurrently" in table.out and max(map(len, table.out.splitlines())) <= 80


def test_workers_run_nothing_that_is_beside_pictures(pictures, picture_model) -> None:
    run_among_traps(pictures, picture_model, "--cores", "2")


@pytest.mark.slow
def test_workers_of_a_cluster_run_nothing_that_is_beside_pictures(ray, pictures, picture_model) -> None:
    run_among_traps(pictures, picture_model, "--cluster", ray.get_runtime_context().gcs_address)


def run_among_traps(pictures, picture_model, *how) -> None:
    set_traps(pictures)
    program = "import sys; del sys.path[0]; from trninfer.app.main import main; main()"
    arguments = ["classify", ".", "--model", str(picture_model), "--backend", "sim", "--format", "csv", *how]
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, cwd=pictures, capture_output=True, text=True)
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 4), done.stderr
    assert sprung(pictures) == []


def test_from_python(pictures, picture_model) -> None:
    paths = sorted(pictures.glob("*.png"))
    one = trninfer.classify(paths, picture_model, backend="sim", batch_size=1)
    assert trninfer.classify(paths, picture_model, backend="sim", batch_size=1, cores=2) == one
    rows = np.random.default_rng(0).standard_normal((9, 64)).astype(np.float32)
    one = trninfer.predict(rows, backend="sim", batch_size=4)
    assert trninfer.predict(rows, backend="sim", batch_size=4, cores=2) == one
    with pytest.raises(ValueError, match="cores is 0; expected an integer from 1 to 4096"):
        trninfer.predict(rows, cores=0)


@pytest.mark.slow
def test_rows_over_a_cluster_from_python(ray) -> None:
    rows = np.random.default_rng(0).standard_normal((9, 64)).astype(np.float32)
    one = trninfer.predict(rows, backend="sim", batch_size=4)
    assert trninfer.predict(rows, backend="sim", batch_size=4, cluster="auto", cores=2) == one


def test_a_run_with_workers_resumes_an_earlier_run(cli, pictures, picture_model, tmp_path) -> None:
    arguments = ("--model", picture_model, "--batch-size", 1, "--format", "csv", "--backend", "sim")
    whole, parts = tmp_path / "whole.csv", tmp_path / "parts.csv"
    cli("classify", pictures, *arguments, "--output", whole)
    cli("classify", pictures / "0.png", *arguments, "--output", parts)
    outcome = cli("classify", pictures, *arguments, "--output", parts, "--resume", "--cores", 2)
    assert outcome.status == 0 and parts.read_bytes() == whole.read_bytes()


@pytest.mark.slow
def test_a_picture_from_standard_input_is_sent_to_a_worker(cli, ray, pictures, picture_model, monkeypatch) -> None:
    with (pictures / "0.png").open("rb") as file:
        monkeypatch.setattr("sys.stdin", os.fdopen(os.dup(file.fileno())))
        outcome = cli("classify", "-", "--model", picture_model, "--cluster", "auto", *SIM_JSON)
    assert [answer["input"] for answer in outcome.json()["predictions"]] == ["-"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--cores", 2, "--trace", "x.json"), "--trace "),
        (("--cluster", "auto", "--trace", "x.json"), "--trace "),
    ],
)
def test_options_incompatible_with_several_workers(cli, feature_model, data, options, message) -> None:
    outcome = cli("ffnn", "--data", data, "--model", feature_model, *options)
    assert outcome.status == 2 and message in outcome.err and len(outcome.err.splitlines()) == 1


@pytest.mark.parametrize("options", [("--ship",), ("--ship", "--cluster", "auto", "--verify")])
def test_options_incompatible_with_ship(cli, pictures, options) -> None:
    outcome = cli("classify", pictures, *options)
    assert outcome.status == 2 and "--ship" in outcome.err and len(outcome.err.splitlines()) == 1


def test_a_target_that_is_none_is_reported_once(cli, feature_model, data, monkeypatch) -> None:
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn9")
    outcome = cli("ffnn", "--data", data, "--model", feature_model, "--cores", 2, "--backend", "sim")
    assert outcome.status == 2 and "trn9" in outcome.err and len(outcome.err.splitlines()) == 1


def test_only_a_cluster_needs_ray(cli, feature_model, data, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    arguments = ("ffnn", "--data", data, "--model", feature_model, "--backend", "sim", "--quiet")
    outcome = cli(*arguments, "--cluster", "10.0.0.1:6379")
    assert outcome.status == 3 and "--cluster requires Ray" in outcome.err
    assert "pip install 'trninfer[cluster]'" in outcome.err
    assert cli(*arguments, "--cores", 2).status == 0


# A chip, simulated by stand-ins


@pytest.fixture
def chip(monkeypatch):
    """Make workers open a stand-in for the chip, optionally with a fault."""
    for folder in FOLDERS:
        monkeypatch.syspath_prepend(str(folder))
    import core_backends

    monkeypatch.setattr(environment, "neuron_devices", lambda: ("/dev/neuron0",))
    monkeypatch.setattr(environment, "find_way", lambda: environment.Way("torchneuron", ()))
    monkeypatch.setenv("NEURON_RT_VISIBLE_CORES", "0-1")

    def use(fault: str | None = None) -> None:
        opener = functools.partial(core_backends.open_core, fault=fault)
        monkeypatch.setattr(shared_session, "open_neuron_backend", opener)

    use()
    yield use
    sys.modules.pop("core_backends", None)


@pytest.mark.slow
def test_cores_of_the_chip(cli, chip, feature_model, data) -> None:
    arguments = ("ffnn", "--data", data, "--model", feature_model, "--batch-size", 3, "--format", "json")
    outcome = cli(*arguments, "--cores", 2, "--warmup", 7, "--iters", 8, "--verify")
    report = outcome.json()
    assert outcome.status == 0 and report["verify"]["passed"]
    assert (report["backend"], report["latency_label"]) == ("neuron", "measured, host round trip")
    assert [answer["input"] for answer in report["predictions"]] == list(range(20))
    assert "worker 0: core 0: warm-up 7, iterations 8\n" in outcome.err
    assert report["cores"]["count"] == 2 and report["cores"]["elapsed_us"] <= report["total_us"]


def test_more_cores_than_there_are(cli, chip, feature_model, data, monkeypatch) -> None:
    monkeypatch.setenv("NEURON_RT_VISIBLE_CORES", "4-5")
    outcome = cli("ffnn", "--data", data, "--model", feature_model, "--cores", 3)
    assert outcome.status == 3 and "3 NeuronCores were requested, but only 2 are visible (4-5)" in outcome.err


def test_a_core_in_use_has_exit_status_3(cli, chip, feature_model, data) -> None:
    chip("lose")
    outcome = cli("ffnn", "--data", data, "--model", feature_model, "--cores", 2, "--quiet")
    assert outcome.status == 3 and "is taken" in outcome.err and "Traceback" not in outcome.err


@pytest.mark.slow
def test_inputs_whose_workers_die_are_errors_and_status_2(cli, chip, feature_model, tmp_path) -> None:
    np.ones((2, 6), "<f4").tofile(tmp_path / "two.bin")
    chip("kill")
    arguments = ("--model", feature_model, "--cores", 2, "--batch-size", 1, "--format", "json", "--quiet")
    outcome = cli("ffnn", "--data", tmp_path / "two.bin", *arguments)
    report = outcome.json()
    assert outcome.status == 2 and report["predictions"] == []
    assert [error["input"] for error in report["errors"]] == [0, 1]
    assert all("2 workers ended" in error["message"] for error in report["errors"])


# A run in a separate process, and its end


def processes_with(word: str) -> list[int]:
    """Return the other processes whose environment contains a word."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if word.encode() in (folder / "environ").read_bytes() and int(folder.name) != os.getpid():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def wait_for(condition, process: subprocess.Popen | None = None, seconds: float = 120) -> None:
    """Wait for a condition, or until the process ends, if one is given."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert process is None or process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def running(tmp_path, feature_model):
    """Start a slow run on two workers, and wait until its journal contains the first answers."""
    np.random.default_rng(0).standard_normal((60_000, 6)).astype("<f4").tofile(tmp_path / "many.bin")
    partial = tmp_path / "out.csv.partial"
    arguments = ["ffnn", "--data", str(tmp_path / "many.bin"), "--model", str(feature_model), "--batch-size", "8"]
    arguments += [
        "--backend",
        "sim",
        "--cores",
        "2",
        "--quiet",
        "--format",
        "csv",
        "--output",
        str(tmp_path / "out.csv"),
    ]
    program = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from trninfer.app.main import *"
    process = subprocess.Popen(
        [sys.executable, "-c", f"{program}; main()", *arguments],
        env={**os.environ, "MARK": str(tmp_path), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(lambda: partial.exists() and partial.stat().st_size > 1000, process)
    yield process, partial
    process.kill()
    process.communicate()


def answered_rows(partial: Path) -> list[int]:
    lines = partial.read_text().splitlines()[1:]
    return [json.loads(line)["input"] for line in lines if line.endswith("}")]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs Linux's /proc")
@pytest.mark.parametrize(
    "number, status", [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_no_process_outlives_a_run_and_no_row_is_lost(running, tmp_path, number, status) -> None:
    process, partial = running
    assert len(processes_with(f"MARK={tmp_path}")) >= 2
    process.send_signal(number)
    out, err = process.communicate(timeout=120)
    assert process.returncode == status and out == ""
    told = ["trninfer"] * 2 if status > 0 else []
    assert [line.partition(":")[0] for line in err.splitlines()] == told
    wait_for(lambda: not processes_with(f"MARK={tmp_path}"), seconds=60)
    answered = answered_rows(partial)
    assert answered == list(range(len(answered))) and answered  # in order, without gaps or duplicates


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs Linux's /proc")
def test_killed_workers_lose_no_row(running, tmp_path) -> None:
    process, partial = running
    held = 2 * WINDOW * 8  # rows that may be written after their workers ended
    for killed in range(3):
        seen = len(answered_rows(partial))
        workers = [each for each in processes_with(f"MARK={tmp_path}") if each != process.pid]
        os.kill(workers[killed % len(workers)], signal.SIGKILL)
        wait_for(lambda: len(answered_rows(partial)) > seen + held, process)  # noqa: B023
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == 143
    answered = answered_rows(partial)
    assert answered == list(range(len(answered)))

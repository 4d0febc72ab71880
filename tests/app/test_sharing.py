"""--cores and --cluster: the commands over workers, and the Ray of our own from its start to its end."""

from __future__ import annotations

import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
import trninfer
from traps import set_traps, sprung
from trninfer.runtime.cluster import own_ray, shared_session
from trninfer.runtime.cluster.janitor import processes_of
from trninfer.runtime.cluster.ray_start import ray_for
from trninfer.runtime.neuron import environment

pytestmark = pytest.mark.slow

SIM_JSON = ("--backend", "sim", "--format", "json")
FOLDERS = (Path(__file__).parent / "stand_ins", Path(__file__).parents[1] / "runtime" / "neuron" / "stand_ins")


@pytest.fixture(scope="module")
def ray():
    """Ray on this machine with two workers, a NeuronCore each; the commands find this process connected to it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([*map(str, FOLDERS), *filter(None, [os.environ.get("PYTHONPATH")])]))
        with ray_for(None, 2, (0, 1)) as started:
            yield started


@pytest.fixture
def data(tmp_path) -> Path:
    np.random.default_rng(0).standard_normal((20, 6)).astype("<f4").tofile(tmp_path / "x.bin")
    return tmp_path / "x.bin"


@pytest.mark.parametrize("verify", [(), ("--verify",)])
def test_cores_of_the_simulator(cli, ray, feature_model, data, verify) -> None:
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


@pytest.mark.parametrize("how", [("--cores", 2), ("--cluster", "auto"), ("--cluster", "auto", "--ship")])
def test_pictures_over_workers_in_order_with_bad_ones_told(cli, ray, pictures, picture_model, how) -> None:
    (pictures / "1a.png").write_text("no picture", encoding="utf-8")
    arguments = ("classify", pictures, "--model", picture_model, "--batch-size", 1, "--backend", "sim")
    one = cli(*arguments, "--format", "json").json()
    outcome = cli(*arguments, "--format", "json", *how)
    several = outcome.json()
    assert outcome.status == 2 and several["errors"] == one["errors"] and len(one["errors"]) == 1
    assert several["predictions"] == one["predictions"] and several["layers"] == one["layers"]
    table = cli(*arguments, *how)
    assert "2 cores work at once" in table.out and max(map(len, table.out.splitlines())) <= 80


@pytest.mark.parametrize("how", ["--cores", "--cluster"])
def test_workers_run_nothing_that_is_beside_pictures(ray, pictures, picture_model, how) -> None:
    set_traps(pictures)
    where = (how, "2" if how == "--cores" else ray.get_runtime_context().gcs_address)
    program = "import sys; del sys.path[0]; from trninfer.app.main import main; main()"
    arguments = ["classify", ".", "--model", str(picture_model), "--backend", "sim", "--format", "csv", *where]
    # The address is the loopback's, as it says, and others need the token.
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": own_ray._TOKEN}
    variables = {**os.environ, "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", **token}
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, cwd=pictures, env=variables, capture_output=True, text=True)
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 4), done.stderr
    assert sprung(pictures) == []


def test_from_python(ray, pictures, picture_model) -> None:
    paths = sorted(pictures.glob("*.png"))
    one = trninfer.classify(paths, picture_model, backend="sim", batch_size=1)
    assert trninfer.classify(paths, picture_model, backend="sim", batch_size=1, cores=2) == one
    rows = np.random.default_rng(0).standard_normal((9, 64)).astype(np.float32)
    one = trninfer.predict(rows, backend="sim", batch_size=4)
    assert trninfer.predict(rows, backend="sim", batch_size=4, cluster="auto", cores=2) == one
    with pytest.raises(ValueError, match="cores is 0; a whole number from 1 to 4096"):
        trninfer.predict(rows, cores=0)


def test_a_run_over_workers_goes_on_from_an_earlier_one(cli, ray, pictures, picture_model, tmp_path) -> None:
    arguments = ("--model", picture_model, "--batch-size", 1, "--format", "csv", "--backend", "sim")
    whole, parts = tmp_path / "whole.csv", tmp_path / "parts.csv"
    cli("classify", pictures, *arguments, "--output", whole)
    cli("classify", pictures / "0.png", *arguments, "--output", parts)
    outcome = cli("classify", pictures, *arguments, "--output", parts, "--resume", "--cluster", "auto")
    assert outcome.status == 0 and parts.read_bytes() == whole.read_bytes()


def test_a_picture_piped_in_goes_to_a_worker(cli, ray, pictures, picture_model, monkeypatch) -> None:
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
def test_what_does_not_go_with_several_workers(cli, feature_model, data, options, message) -> None:
    outcome = cli("ffnn", "--data", data, "--model", feature_model, *options)
    assert outcome.status == 2 and message in outcome.err and len(outcome.err.splitlines()) == 1


@pytest.mark.parametrize("options", [("--ship",), ("--ship", "--cluster", "auto", "--verify")])
def test_what_does_not_go_with_ship(cli, pictures, options) -> None:
    outcome = cli("classify", pictures, *options)
    assert outcome.status == 2 and "--ship" in outcome.err and len(outcome.err.splitlines()) == 1


def test_a_target_that_is_none_is_told_once(cli, feature_model, data, monkeypatch) -> None:
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn9")
    outcome = cli("ffnn", "--data", data, "--model", feature_model, "--cores", 2, "--backend", "sim")
    assert outcome.status == 2 and "trn9" in outcome.err and len(outcome.err.splitlines()) == 1


def test_without_ray_it_says_what_to_install(cli, feature_model, data, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    outcome = cli("ffnn", "--data", data, "--model", feature_model, "--cores", 2, "--backend", "sim", "--quiet")
    assert outcome.status == 3 and "pip install 'trninfer[cluster]'" in outcome.err
    assert cli("ffnn", "--data", data, "--model", feature_model, "--cores", 1, "--backend", "sim").status == 0


# The chip, by stand-ins


@pytest.fixture
def chip(ray, monkeypatch):
    """Makes workers open a stand-in for the chip, with a fault or without."""
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
    assert outcome.status == 3 and "3 NeuronCores asked for; 2 are visible (4-5)" in outcome.err


def test_a_core_that_is_taken_is_status_3(cli, chip, feature_model, data) -> None:
    chip("lose")
    outcome = cli("ffnn", "--data", data, "--model", feature_model, "--cores", 2, "--quiet")
    assert outcome.status == 3 and "is taken" in outcome.err and "Traceback" not in outcome.err


def test_inputs_whose_workers_die_are_errors_and_status_2(cli, chip, feature_model, tmp_path) -> None:
    np.ones((2, 6), "<f4").tofile(tmp_path / "two.bin")
    chip("kill")
    arguments = ("--model", feature_model, "--cores", 2, "--batch-size", 1, "--format", "json", "--quiet")
    outcome = cli("ffnn", "--data", tmp_path / "two.bin", *arguments)
    report = outcome.json()
    assert outcome.status == 2 and report["predictions"] == []
    assert [error["input"] for error in report["errors"]] == [0, 1]
    assert all("2 workers ended" in error["message"] for error in report["errors"])


# Ray's start and end, in a process of its own


def listening_beyond_loopback(processes: list[int]) -> list[str]:
    """Addresses on which processes listen and others can reach them."""
    inodes = set()
    for process in processes:
        for link in Path(f"/proc/{process}/fd").glob("*"):
            try:
                inodes.add(os.readlink(link).removeprefix("socket:[").removesuffix("]"))
            except OSError:
                continue
    found = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            address = fields[1].rpartition(":")[0]
            local = address in ("0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000")
            if fields[3] == "0A" and fields[9] in inodes and not local:
                found.append(fields[1])
    return found


@pytest.fixture
def command(tmp_path, feature_model):
    """A run over two workers that takes a while, in a process of its own with a folder of its own for Ray."""
    np.random.default_rng(0).standard_normal((60_000, 6)).astype("<f4").tofile(tmp_path / "many.bin")
    folder = Path(tempfile.mkdtemp(prefix="t", dir="/tmp"))  # Ray's sockets need a short path
    arguments = ["ffnn", "--data", str(tmp_path / "many.bin"), "--model", str(feature_model), "--batch-size", "8"]
    program = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from trninfer.app.main import *"
    yield (
        [sys.executable, "-c", f"{program}; main()", *arguments, "--backend", "sim", "--cores", "2", "--quiet"],
        {**os.environ, "TMPDIR": str(folder), "OMP_NUM_THREADS": "1"},
        folder,
    )
    shutil.rmtree(folder, ignore_errors=True)


def wait_for(condition, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def begin(command, *arguments: str) -> tuple[subprocess.Popen[str], Path]:
    words, variables, folder = command
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([*words, *arguments], env=variables, **pipes), folder


def ray_folder(folder: Path) -> str:
    """The folder of the Ray of a run, once there is one."""
    found: list[Path] = []
    wait_for(lambda: found.extend(folder.glob("trninfer-ray-*")) or found)
    return str(found[0])


def nothing_is_left(of: str, folder: Path) -> None:
    wait_for(lambda: not processes_of(of) and not list(folder.iterdir()), 20)


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs Linux's /proc")
@pytest.mark.parametrize(
    "number, status", [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_ray_of_our_own_listens_here_alone_and_leaves_nothing(command, tmp_path, number, status) -> None:
    process, folder = begin(command, "--format", "csv", "--output", str(tmp_path / "out.csv"))
    partial = tmp_path / "out.csv.partial"
    wait_for(lambda: process.poll() is not None or (partial.exists() and partial.stat().st_size > 1000))
    assert process.poll() is None, process.stderr.read()
    its = ray_folder(folder)
    ours = processes_of(its)
    assert len(ours) >= 4  # the store, the scheduler, and others of Ray
    assert listening_beyond_loopback(ours) == []
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == status and out == ""
    told = ["trninfer"] * 2 if status > 0 else []  # nothing of Ray
    assert [line.partition(":")[0] for line in err.splitlines()] == told
    nothing_is_left(its, folder)
    answered = [json.loads(line)["input"] for line in partial.read_text().splitlines()[1:]]
    assert answered == list(range(len(answered)))  # in order, none lost, none twice


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs Linux's /proc")
def test_a_run_that_is_terminated_while_ray_starts_leaves_nothing(command) -> None:
    process, folder = begin(command)
    its = ray_folder(folder)
    wait_for(lambda: any(name_of(process) == "raylet" for process in processes_of(its)))
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=60) == ("", "trninfer: terminated\n")
    assert process.returncode == 143
    nothing_is_left(its, folder)


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs Linux's /proc")
def test_a_server_of_ray_that_is_killed_while_it_starts_is_status_3(command) -> None:
    process, folder = begin(command)
    its = ray_folder(folder)
    wait_for(lambda: [os.kill(each, signal.SIGKILL) for each in processes_of(its) if name_of(each) == "raylet"])
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, len(err.splitlines())) == (3, "", 1)
    assert err.startswith("trninfer: Ray does not start on this machine: its raylet ended")
    nothing_is_left(its, folder)


def name_of(process: int) -> str:
    try:
        return Path(f"/proc/{process}/comm").read_text().strip()
    except OSError:
        return ""


def test_other_users_of_the_machine_cannot_join(ray) -> None:
    variables = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")}
    program = "import sys, ray._raylet; ray._raylet.GcsClient(address=sys.argv[1])"
    command = [sys.executable, "-c", program, ray.get_runtime_context().gcs_address]
    with tempfile.TemporaryDirectory() as home:
        done = subprocess.run(command, env={**variables, "HOME": home}, capture_output=True, text=True)
    assert done.returncode == 1 and "InvalidAuthToken" in done.stderr

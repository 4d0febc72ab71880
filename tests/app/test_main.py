"""The command line as a process: exit statuses, pipes, interruption, and help."""

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest
from traps import set_traps, sprung
from trninfer import __version__
from trninfer.app import main


def test_help_imports_nothing_heavy() -> None:
    for arguments in ("--help", "classify --help", "ffnn --help", "bench --help", "--version"):
        command = [sys.executable, "-X", "importtime", "-m", "trninfer", *arguments.split()]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
        assert "typer" in imported
        assert not imported & {"numpy", "PIL", "rich", "safetensors", "ml_dtypes"}


def test_help_and_version(cli) -> None:
    assert cli("--version").out == f"trninfer {__version__}\n"
    outcome = cli()
    assert outcome.status == 0 and "classify" in outcome.out and "Exit status" in outcome.out
    for command in ("classify", "ffnn", "bench", "models", "doctor"):
        assert cli(command, "--help").status == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nonsense",), "No such command 'nonsense' (see trninfer --help)"),
        (("classify",), "(see trninfer classify --help)"),
        (("classify", "x.png", "--dtype", "int8"), "int8"),
        (("classify", "x.png", "--frobnicate"), "--frobnicate"),
        (("classify", "x.png", "--output", "/no/such/folder/x"), "the folder /no/such/folder does not exist"),
        (("classify", "x.png", "--output", "/"), "is a folder"),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(cli, arguments, message) -> None:
    outcome = cli(*arguments)
    assert outcome.status == 2 and outcome.out == "" and message in outcome.err
    assert len(outcome.err.splitlines()) == 1 and outcome.err.startswith("trninfer: ")


def test_a_file_that_looks_like_an_option_is_reported(cli, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "-dash.png").write_bytes(b"")
    told = "; to pass the file -dash.png, write ./-dash.png (see trninfer classify --help)"
    line = cli("classify", "-dash.png").err
    # the text in between depends on the version of click
    assert line.startswith("trninfer: No such option") and told in line
    assert "goes by" not in cli("classify", "-dish.png").err
    assert "./-dash.png: an empty file" in cli("classify", "./-dash.png").err


def test_names_that_a_terminal_cannot_show_stay_in_their_column(process, pictures, picture_model, tmp_path) -> None:
    names = ["plain.png", "七.png"]
    for name in names:
        shutil.copy(next(pictures.glob("*.png")), tmp_path / name)
    done = process("classify", *names, "--model", picture_model, cwd=tmp_path, env={"PYTHONIOENCODING": "ascii"})
    header, _, *rows = done.communicate()[0].decode("ascii").splitlines()[:4]
    assert [row.split()[0] for row in rows] == ["plain.png", r"\u4e03.png"]
    assert all(re.search(r"  (\S+) ", row).start(1) == header.index("label") for row in rows)


def test_modules_in_the_folder_of_pictures_are_not_imported(process, pictures, picture_model) -> None:
    set_traps(pictures)
    # it would be imported by `python -m trninfer` before any line of trninfer runs
    shutil.rmtree(pictures / "trninfer")
    arguments = ("classify", ".", "--model", picture_model, "--backend", "sim", "--verify", "--report", "r.html")
    running = process(*arguments, cwd=pictures)
    assert running.wait() == 0, running.stderr.read()
    assert sprung(pictures) == []


def test_a_removed_current_folder_is_reported_only_if_it_is_needed(
    cli, pictures, picture_model, monkeypatch, tmp_path
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    arguments = ("classify", pictures, "--model", picture_model, "--backend", "sim", "--format", "csv", "--quiet")
    assert cli(*arguments).status == 0
    outcome = cli(*arguments, "--output", "x.csv")
    assert (outcome.status, outcome.messages) == (2, 1) and "the current folder was removed" in outcome.err


def test_a_start_in_a_removed_folder(pictures, picture_model, tmp_path) -> None:
    """In a separate process: `python -m` itself accesses the current folder."""
    (tmp_path / "gone").mkdir()
    leave = f"cd {tmp_path}/gone && rmdir ../gone && exec"
    arguments = f"classify {pictures} --model {picture_model} --backend sim --format csv --quiet"
    done = subprocess.run(
        f"{leave} {sys.executable} -m trninfer {arguments}", shell=True, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "") and len(done.stdout.splitlines()) == 4


@pytest.mark.parametrize("kilobytes", [60_000, 200_000])
def test_too_little_memory_for_numpy_is_reported_in_one_line(kilobytes: int) -> None:
    command = f"ulimit -v {kilobytes} && exec {sys.executable} -m trninfer models"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "a limit allows" in done.stderr


def test_a_backend_that_is_not_there_is_status_3(cli, feature_model, monkeypatch) -> None:
    monkeypatch.setattr("trninfer.runtime.neuron.environment.neuron_devices", lambda: ())
    outcome = cli("bench", "--model", feature_model, "--backend", "neuron")
    assert outcome.status == 3 and "no Neuron device" in outcome.err and "pip install" in outcome.err
    assert outcome.messages == 1


def test_a_fault_of_the_program_is_not_hidden(monkeypatch) -> None:
    def fail(*arguments: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("trninfer.models.bundled.bundled_models", fail)
    with pytest.raises(ZeroDivisionError):
        main.run(["models"])


def test_a_closed_pipe_is_not_an_error(process, tmp_path, feature_model) -> None:
    np.zeros((20_000, 6), "<f4").tofile(tmp_path / "X.bin")  # more answers than a pipe can buffer
    running = process("ffnn", "--data", tmp_path / "X.bin", "--model", feature_model, "--format", "ndjson", "--quiet")
    assert running.stdout is not None and running.stderr is not None
    line = running.stdout.readline()
    running.stdout.close()
    assert json.loads(line)["type"] == "prediction"
    assert running.stderr.read() == b"" and running.wait() == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_behind_standard_output_is_reported(process, feature_model) -> None:
    with open("/dev/full", "wb") as full:
        running = process("bench", "--model", feature_model, stdout=full)
        _, err = running.communicate()
    assert running.returncode == 2 and err == b"trninfer: standard output cannot be written: No space left on device\n"


def test_help_to_a_closed_pipe_is_not_an_error() -> None:
    for command in ("", "classify", "bench"):
        words = f"{sys.executable} -m trninfer {command} --help | true; exit ${{PIPESTATUS[0]}}"
        done = subprocess.run(["bash", "-c", words], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, ""), done


def test_a_dash_is_standard_output(cli, feature_model, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = cli("bench", "--model", feature_model, "--format", "json", "--output", "-", "-q")
    assert outcome.json()["command"] == "bench" and outcome.err == "" and not list(tmp_path.iterdir())


def test_closed_streams(process, feature_model, tmp_path) -> None:
    command = f"exec {sys.executable} -m trninfer bench --model {feature_model} --format json"
    for closed, status in ((">&-", 2), (f"--output {tmp_path}/x.json >&- 2>&- <&-", 0)):
        done = subprocess.run(["sh", "-c", f"{command} {closed}"], capture_output=True, text=True)
        assert done.returncode == status and "Traceback" not in done.stderr, done
    assert json.loads((tmp_path / "x.json").read_text())["command"] == "bench"


def test_interruption_is_status_130_and_leaves_no_pieces(process, tmp_path, picture_model) -> None:
    target = tmp_path / "answers.json"
    target.write_text("before")
    running = process("classify", "-", "--model", picture_model, "--format", "json", "--output", target)
    running.stdin.write(bytes(200_000))  # more than a pipe can buffer, so it is already reading standard input
    running.stdin.flush()
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=120)
    assert running.returncode == 130 and err == b"trninfer: interrupted\n"
    assert [path.name for path in tmp_path.iterdir()] == ["answers.json"] and target.read_text() == "before"


def on_a_terminal(process, *arguments: object, **environment: str) -> str:
    """Return the output of a command on a terminal of 80 columns."""
    ours, its = pty.openpty()
    running = process(*arguments, stdin=its, stdout=its, stderr=its, env={"TERM": "xterm-256color", **environment})
    os.close(its)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    os.close(ours)
    assert running.wait() == 0, shown
    return shown.decode()


def test_colour_and_progress_only_on_a_terminal(process, pictures, picture_model) -> None:
    arguments = ("classify", pictures, "--model", picture_model)
    shown = on_a_terminal(process, *arguments)
    assert "\x1b[1m" in shown and "classifying" in shown
    plain = on_a_terminal(process, *arguments, "--quiet", NO_COLOR="1")
    assert "\x1b[3" not in plain and "classifying" not in plain
    piped = process(*arguments)
    out, err = piped.communicate()
    assert b"\x1b" not in out and err == b""
    live = on_a_terminal(process, *arguments, "--format", "csv", "--quiet")  # a progress bar would interfere with it
    assert len(live.splitlines()) == 4 and "\x1b" not in live


def test_progress_reports_the_rate(process, tmp_path, feature_model) -> None:
    np.zeros((1500, 6), "<f4").tofile(tmp_path / "X.bin")
    arguments = ("ffnn", "--data", tmp_path / "X.bin", "--model", feature_model, "--batch-size", 10)
    shown = on_a_terminal(process, *arguments, "--output", tmp_path / "answers.txt")
    assert re.search(r"\d+/1500\S* \S*\d+/s", shown) and "0:00:0" in shown


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_completion(process) -> None:
    # the colon makes the shell process exist while bash is detected
    command = f"{sys.executable} -m trninfer --show-completion; :"
    shown = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert "complete -o default -F _trninfer_completion trninfer" in shown.stdout, shown
    wanted = {
        "trninfer cla": "classify",
        "trninfer classify --from": "--from-list",
        "trninfer bench --kernel vec": "vector_add",
        "trninfer bench --model digits-c": "digits-cnn",
        "trninfer bench --set dma_sust": "dma_sustained=",
        "trninfer bench --kernel matmul --shape m=1,k=2,n": "m=1,k=2,n=",
    }
    for words, expected in wanted.items():
        asked = {"_TRNINFER_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        assert process(env=asked).communicate()[0].decode().split() == [expected]


@pytest.mark.parametrize("module", ["resource", "typer", "trninfer.app.main", "trninfer.app.options"])
def test_an_interruption_while_it_loads_is_no_traceback(module) -> None:
    code = f"""
import builtins, sys
load = builtins.__import__
def interrupted(name, globals=None, locals=None, fromlist=(), level=0):
    module = load(name, globals, locals, fromlist, level)
    if {module!r} in sys.modules:
        builtins.__import__ = load
        raise KeyboardInterrupt
    return module
from trninfer.__main__ import main
builtins.__import__ = interrupted
main()
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "trninfer: interrupted\n")


def test_hardly_anything_is_loaded_before_interruptions_are_caught() -> None:
    """Ctrl-C before that ends with Python's traceback; only the interpreter's own start remains."""
    code = """
import importlib, sys
before = set(sys.modules)
from trninfer.__main__ import main
print(*sorted(name for name in set(sys.modules) - before if not name.startswith("trninfer")))
"""
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.split()
    assert loaded == []


def test_an_interruption_of_executed_text_is_a_status_and_no_signal(tmp_path) -> None:
    (tmp_path / "interrupted.py").write_text("""
import trninfer.app.main
from trninfer.__main__ import main
trninfer.app.main.main = lambda: exec("raise KeyboardInterrupt")  # as where a dataclass is being made
main()
""")
    ended = subprocess.run([sys.executable, "-m", "interrupted"], cwd=tmp_path, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (130, "trninfer: interrupted\n")

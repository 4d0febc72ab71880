"""The command line without functions that Windows lacks: they are removed, and the commands still run.

This shows that none of the functions is needed; .github/workflows/systems.yml runs on Windows itself.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]

WITHOUT = """
import importlib.abc, os, platform, signal, subprocess, sys, tempfile
platform.uname()
import numpy, PIL.Image, ml_dtypes, typer, rich.console, zipfile, platformdirs, unittest.mock
try:
    import onnx
except ImportError:
    pass
LACKING = (
    "O_CLOEXEC O_NONBLOCK O_NOFOLLOW O_NOCTTY O_DIRECTORY O_SYNC pread pwrite readv fchmod fchown getuid geteuid "
    "getgid getegid killpg getpgid setsid fork forkpty openpty mkfifo set_blocking sysconf statvfs uname getloadavg "
    "nice sched_getaffinity sched_setaffinity posix_spawn ttyname ctermid wait3 wait4 WIFEXITED"
)
for name in LACKING.split():
    if hasattr(os, name):
        delattr(os, name)
for name in "SIGHUP SIGKILL SIGALRM SIGQUIT SIGUSR1 SIGUSR2 SIGPIPE SIGCHLD setitimer alarm pthread_sigmask".split():
    if hasattr(signal, name):
        delattr(signal, name)

class Lacking(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in ("fcntl", "resource", "pty", "pwd", "grp", "termios", "tty", "syslog"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

for name in ("fcntl", "resource", "pty", "pwd", "grp", "termios", "tty"):
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Lacking())
windows = type(sys)("msvcrt")
windows.LK_NBLCK, windows.locking = 2, lambda descriptor, mode, count: None
sys.modules["msvcrt"] = windows
from trninfer.__main__ import main
sys.argv[0] = "trninfer"
main()
"""


def run(*arguments: object, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-c", WITHOUT, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, input=stdin, timeout=300, env={**os.environ, "COLUMNS": "80"})
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    return done


def test_pictures_are_answered(pictures: Path, picture_model: Path, tmp_path: Path) -> None:
    arguments = ("classify", pictures, "--model", picture_model, "--format", "csv", "-q")
    streamed = run(*arguments)
    assert streamed.returncode == 0 and streamed.stdout.count(b"\n") == 4
    target = tmp_path / "answers.csv"
    assert run(*arguments, "--output", target, "--report", tmp_path / "page.html").returncode == 0
    assert target.read_bytes().replace(b"\r", b"") == streamed.stdout
    assert run("classify", "-", *arguments[2:], stdin=(pictures / "0.png").read_bytes()).returncode == 0
    assert b"no such file" in run("classify", "none.png", "--model", picture_model).stderr


def test_an_interrupted_run_is_gone_on_with(pictures: Path, picture_model: Path, tmp_path: Path) -> None:
    target = tmp_path / "answers.ndjson"
    arguments = ("classify", "--model", picture_model, "--format", "ndjson", "-q", "--output", target)
    first, *rest = sorted(pictures.iterdir())
    assert run(*arguments, first).returncode == 0
    assert run(*arguments, first, *rest, "--resume").returncode == 0
    lines = [json.loads(line) for line in target.read_text().splitlines()]
    assert [line["input"] for line in lines if line["type"] == "prediction"] == [str(first), *map(str, rest)]


def test_the_other_commands(feature_model: Path, tmp_path: Path) -> None:
    np.zeros((3, 6), "<f4").tofile(tmp_path / "X.bin")
    kernel = ROOT / "kernels" / "vector_add.py"
    (tmp_path / "script.py").write_text("import nki.language as nl\nprint(nl.float32)\n")
    for arguments in (
        ("ffnn", "--data", tmp_path / "X.bin", "--model", feature_model),
        ("bench", "--model", feature_model, "--trace", tmp_path / "t.json"),
        ("models",),
        ("doctor",),
        ("lint", kernel),
        ("simulate", tmp_path / "script.py"),
        ("--help",),
        ("serve", "--help"),
    ):
        done = run(*arguments)
        assert done.returncode == 0 and (done.stdout or arguments[0] == "lint"), (arguments, done)


def test_a_network_is_imported(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper
    weight = onnx.numpy_helper.from_array(np.ones((4, 3), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 4])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 3])],
        [weight],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    done = run(
        "import", tmp_path / "m.onnx", "--output", tmp_path / "m.safetensors", "--labels", "-", stdin=b"a\nb\nc\n"
    )
    assert done.returncode == 0 and (tmp_path / "m.safetensors").exists(), done

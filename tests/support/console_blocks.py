"""The console blocks of the pages: their commands, and the user's files that the commands name."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
from caches import empty_cache
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from safetensors.numpy import save_file

ROOT = Path(__file__).resolve().parent.parent.parent
_GENERATED = re.compile(r"<!-- (?:run|once): .*?<!-- end -->", re.S)  # run by tests/tools/test_tutorials.py
_FENCE = re.compile(r"(?:<!-- (file|mend): (\S+?)(?:: ([^>]+))? -->\n)?^```(\w*)\n(.*?)^```$", re.M | re.S)
_PROGRAM = re.compile(r"(?:[A-Z_]+=\S+ )*(?:trninfer|python|pip|git|cd|mkdir|cat|find|curl|yolo|apt-get|pytest)\b")
_PORT = "127.0.0.1:8000"


@dataclass(frozen=True)
class Command:
    """A command line on a page, and the output shown below it."""

    page: str
    block: int
    line: str
    shown: tuple[str, ...] = ()


@dataclass(frozen=True)
class Written:
    """A block with a file's contents, or with the replacement for a line of a file."""

    name: str
    content: str
    replaces: str = ""

    def write(self, folder: Path) -> None:
        """Write the file in a folder, or change its line."""
        path, content = folder / self.name, self.content
        if self.replaces:
            lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
            (place,) = [number for number, line in enumerate(lines) if self.replaces in line]
            content = "".join([*lines[:place], content, *lines[place + 1 :]])
        path.write_text(content, encoding="utf-8")


def find_pages() -> list[Path]:
    """Return the pages of documentation: all Markdown files except the changelog and the issue templates."""
    hidden = {".github", "site", "node_modules", ".venv", ".pytest_cache"}
    pages = (path for path in ROOT.rglob("*.md") if not hidden & set(path.relative_to(ROOT).parts))
    return sorted(path for path in pages if path.name != "CHANGELOG.md")


def read_steps(page: Path) -> list[Command | Written]:
    """Return the steps of a reader in order: files to write and commands, with continued lines joined."""
    text = _GENERATED.sub("", page.read_text(encoding="utf-8"))
    steps: list[Command | Written] = []
    for block, (mark, name, replaces, language, body) in enumerate(_FENCE.findall(text)):
        if mark:
            steps.append(Written(name, body, replaces))
        elif language in ("", "sh", "bash", "console"):
            steps += _read_block(str(page.relative_to(ROOT)), block, language, re.sub(r"\\\n\s*", "", body))
    return steps


def _read_block(page: str, block: int, language: str, body: str) -> list[Command]:
    """Return the commands of a block: lines after `$ `, all lines of a shell block, or otherwise those that begin with
    a known program."""
    found: list[Command] = []
    is_prompted = body.startswith("$ ")
    for line in body.splitlines():
        if is_prompted and not line.startswith("$ "):
            found[-1] = replace(found[-1], shown=(*found[-1].shown, line))
        elif is_prompted or language in ("sh", "bash") or _PROGRAM.match(line.strip()):
            found.append(Command(page, block, re.sub(r"\s+# .*$", "", line.removeprefix("$ ").strip())))
    return [command for command in found if command.line]


class Folder:
    """A folder in which commands run one after another, as in a terminal, with a user's files."""

    def __init__(self, path: Path) -> None:
        self.path = self._start = path
        self._servers: list[subprocess.Popen[str]] = []
        self._address = _PORT
        (path / ".bin").mkdir()
        for name, words in (("trninfer", "-m trninfer"), ("python", ""), ("pytest", "-m pytest -p no:cacheprovider")):
            script = path / ".bin" / name
            script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
            script.chmod(0o755)
        write_files(path)

    def run(self, line: str) -> tuple[int, str]:
        """Run a command line, including `cd` and servers; return its exit status and output."""
        if line.startswith("cd "):
            self.path = (self.path / line[3:]).resolve()
            return (0 if self.path.is_dir() else 1), ""
        if line.startswith("trninfer serve"):
            return self._serve(line)
        if _PORT in line and not self._servers:
            self._serve("trninfer serve")
        line = line.replace(_PORT, self._address)
        done = subprocess.run(["bash", "-c", f"set -o pipefail; {line}"], **self._options(), timeout=300)
        return done.returncode, done.stdout

    def _serve(self, line: str) -> tuple[int, str]:
        self.close()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self._address = f"127.0.0.1:{port}"
        server = subprocess.Popen(["bash", "-c", f"exec {line} --port {port}"], **self._options())
        self._servers.append(server)
        for _ in range(600):
            try:
                with urllib.request.urlopen(f"http://{self._address}/v2/health/ready", timeout=5):
                    return 0, ""
            except OSError:
                if server.poll() is not None:
                    return server.returncode, server.communicate()[0]
                time.sleep(0.1)
        return 1, "the server did not get ready"

    def _options(self) -> dict[str, object]:
        environment = {
            **{name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTEST_ADDOPTS")},
            **{"COLUMNS": "200", "NO_COLOR": "1", "TRNINFER_BACKEND": "sim"},
            "PATH": f"{self._start / '.bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "TRNINFER_CACHE": str(empty_cache(self._start / ".cache")),
        }
        return {
            "cwd": self.path,
            "env": environment,
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.STDOUT,
            "text": True,
        }

    def close(self) -> None:
        """Stop the servers that were started."""
        for server in self._servers:
            server.terminate()
            server.communicate(timeout=300)
        self._servers.clear()


KERNEL = """\
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

TILE_N = 512
BUFFERS = 2


@nki.jit
def double(a, unread=None):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for start in range(0, a.shape[1], TILE_N):
        tile = nl.ndarray((a.shape[0], TILE_N), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=a[:, start : start + TILE_N])
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
        nisa.dma_copy(dst=out[:, start : start + TILE_N], src=tile)
    return out


if __name__ == "__main__":
    ones = np.ones((128, 512), np.float32)
    np.testing.assert_allclose(double(ones), 2 * ones)
"""
OLD_KERNEL = """\
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl
import numpy as np


@nki.jit
def double(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.add(nl.load(a), nl.load(a)))
    return out


if __name__ == "__main__":
    ones = np.ones((128, 64), np.float32)
    np.testing.assert_allclose(nki.baremetal(double)(ones), 2 * ones)
"""
NOTEBOOK = '{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}'


def write_files(folder: Path) -> None:
    """Write the user's files that the commands on the pages name: samples, pictures, tables, kernels."""
    for name in ("samples", "benchmarks"):
        (folder / name).symlink_to(ROOT / name)
    pictures = sorted((ROOT / "samples").glob("*.png"))
    for name in ("photos", "val/7", "val/3", "validation", "old", "migrated", "kernels", "lab"):
        (folder / name).mkdir(parents=True)
    for name in ("photos/a.png", "val/7/a.png", "validation/a.png", "7.png"):
        shutil.copy(pictures[-2], folder / name)
    shutil.copy(ROOT / "samples" / "3-handwriting.png", folder / "val" / "3" / "b.png")
    for name in ("photo.jpg", "street.jpg"):
        Image.open(pictures[-2]).convert("RGB").save(folder / name)
    features = np.fromfile(ROOT / "samples" / "digits-X.bin", np.float32).reshape(-1, 64)[:8]
    features.tofile(folder / "X.bin")
    np.save(folder / "big.npy", features)
    random = np.random.default_rng(0)
    sizes = (64, 16, 10)
    for layer, (width, outputs) in enumerate(pairwise(sizes), 1):
        random.normal(0, 0.1, (width, outputs)).astype(np.float32).tofile(folder / "lab" / f"W{layer}.bin")
        np.zeros(outputs, np.float32).tofile(folder / "lab" / f"b{layer}.bin")
    for name in ("my_kernels.py", "kernels/double.py"):
        (folder / name).write_text(KERNEL)
    for name in ("old_kernel.py", "old/double.py", "kernels.py"):
        (folder / name).write_text(OLD_KERNEL)
    write_networks(folder, random)
    (folder / "notebook.ipynb").write_text(NOTEBOOK)
    (folder / "token.txt").write_text("a-token-of-twenty-letters\n")
    (folder / "classes.txt").write_text("".join(f"class {number}\n" for number in range(10)))
    (folder / "labels.csv").write_text("input,label\na.png,7\n")
    columns = [f"f{number}" for number in range(64)]
    rows = [",".join([f"row{row}", *map(str, numbers), "7"]) for row, numbers in enumerate(features)]
    (folder / "table.csv").write_text("\n".join([",".join(["name", *columns, "class"]), *rows, ""]))


def write_networks(folder: Path, random: np.random.Generator) -> None:
    """Write small networks with random weights for pictures, 1000 classes, digits, and the rows of a table."""
    for name, channels, side, classes in (
        ("network", 3, 32, 10),
        ("net", 3, 32, 10),
        ("keras", 3, 32, 10),
        ("resnet50", 3, 32, 1000),
        ("mnist", 1, 28, 10),
    ):
        weights = {"w": (8, channels, 3, 3), "b": (8,), "m": (classes, 8), "c": (classes,)}
        nodes = [("Conv", "x w b"), ("Relu", ""), ("GlobalAveragePool", ""), ("Flatten", ""), ("Gemm", "m c")]
        _save(folder / f"{name}.onnx", nodes, ["batch", channels, side, side], weights, random)
    _save(folder / "table.onnx", [("Gemm", "m c")], ["batch", 64], {"m": (10, 64), "c": (10,)}, random)
    layers = {"0.weight": (16, 64), "0.bias": (16,), "2.weight": (10, 16), "2.bias": (10,)}
    save_file({name: _draw(random, shape) for name, shape in layers.items()}, folder / "mlp.safetensors")


def _draw(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return random.normal(0, 0.3, shape).astype(np.float32)


def _save(
    path: Path,
    nodes: list[tuple[str, str]],
    shape: list[int | str],
    weights: dict[str, tuple[int, ...]],
    random: np.random.Generator,
) -> None:
    made, value = [], "x"
    for number, (kind, operands) in enumerate(nodes):
        operands = operands.removeprefix("x ").split()
        extra = {"transB": 1} if kind == "Gemm" else {}
        made.append(helper.make_node(kind, [value, *operands], [f"v{number}"], **extra))
        value = f"v{number}"
    graph = helper.make_graph(
        made,
        path.stem,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(value, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(_draw(random, shape), name) for name, shape in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)

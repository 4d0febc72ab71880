"""Run commands on damaged files and with random options, and report violations of the contract of the command line.

- `python -m trninfer.tools.fuzz --seconds 3600` runs for an hour; in CI, it runs for a few seconds.
- `python -m trninfer.tools.fuzz --seed 17 --runs 1` repeats one run. Its seed is reported with each fault.

The contract: a command ends with status 0 to 3 and without a traceback; standard error is printable, in lines of at
most 300 characters; JSON output can be parsed; and no partly written file is left. Only trninfer is executed.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import re
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from ..app.main import run
from ..app.text import LONGEST

ROOT = Path(__file__).resolve().parent.parent
FEATURES, ROWS = 64, 5
_WORDS = (
    "",
    "0",
    "-1",
    "1",
    "3",
    "1e9",
    "nan",
    "x",
    "\udcff",
    "\x1b[31m",
    "-",
    "..",
    "/dev/null",
    "ü" * 400,
    "--",
    "a=b",
)
_OPTIONS = ("--batch-size", "--top-k", "--dtype", "--target", "--format", "--header", "--layout", "--resume-check",
            "--form", "--launches", "--labels", "--model", "--quiet", "--verify", "--csv-safe", "--resume", "--trace",
            "--report", "--iters", "--per", "--input", "--confidence", "--iou", "--max-detections")  # fmt: skip
_WARNING = re.compile(r".*\.py:[0-9]+: \w*Warning")


class Fault(NamedTuple):
    """A command line that violated the contract."""

    seed: int
    arguments: list[str]
    what: str


def damage(content: bytes, random: random.Random) -> bytes:
    """Return `content` with some bytes changed, removed, repeated or inserted."""
    damaged = bytearray(content)
    for _ in range(random.choice((1, 1, 2, 5, 30))):
        position = random.randrange(len(damaged) + 1)
        length = random.choice((1, 1, 2, 8, 200))
        kind = random.randrange(4)
        if kind == 0 and position < len(damaged):
            damaged[position] = random.randrange(256)
        elif kind == 1:
            del damaged[position : position + length]
        elif kind == 2:
            damaged[position:position] = damaged[position : position + length]
        else:
            damaged[position:position] = random.choice(
                (b"\0", b"\xff", b'"', b",", b"\n", b"nan", b"9" * 20, b"{", b"\xd8")
            )
    return bytes(damaged)


def _table(random: random.Random) -> bytes:
    cells = (b"0", b"1.5", b"-3", b"16", b"1e3")
    return b"\n".join(b",".join(random.choice(cells) for _ in range(FEATURES)) for _ in range(ROWS)) + b"\n"


def _array(random: random.Random) -> bytes:
    import numpy as np

    file = io.BytesIO()
    rows = np.full((ROWS, FEATURES), random.random(), random.choice(("<f4", ">f8", "i1", "<f2")))
    (np.save if random.random() < 0.5 else np.savez)(file, rows)
    return file.getvalue()


def _maybe_damaged(content: bytes, random: random.Random) -> bytes:
    return damage(content, random) if random.random() < 0.8 else content


def _features(folder: Path, random: random.Random) -> list[str]:
    suffix = random.choice((".csv", ".tsv", ".npy", ".npz", ".bin", ".parquet"))
    content = _table(random) if suffix in (".csv", ".tsv") else _array(random)
    path = folder / f"x{suffix}"
    path.write_bytes(_maybe_damaged(content, random))
    return ["ffnn", "--data", str(path)]


def _picture(folder: Path, random: random.Random) -> list[str]:
    source = random.choice(sorted((ROOT / "samples").glob("*.[jp][np]g")))
    path = folder / f"x{source.suffix}"
    path.write_bytes(_maybe_damaged(source.read_bytes(), random))
    return ["classify", str(path)]


def _model(folder: Path, random: random.Random) -> list[str]:
    content = (ROOT / "weights" / "digits-ffnn.safetensors").read_bytes()
    size = int.from_bytes(content[:8], "little") + 8
    header = damage(content[:size], random) if random.random() < 0.5 else content[:8] + damage(content[8:size], random)
    if random.random() < 0.5:  # fix the length, so that the content is parsed
        header = (len(header) - 8).to_bytes(8, "little") + header[8:] if len(header) >= 8 else header
    path = folder / "x.safetensors"
    path.write_bytes(header + content[size:])
    return ["ffnn", "--data", str(ROOT / "samples" / "digits-X.bin"), "--model", str(path), "--quiet"]


def _script(folder: Path, random: random.Random) -> list[str]:
    source = random.choice(sorted((ROOT / "kernels").glob("*.py")))
    path = folder / "x.py"
    path.write_bytes(damage(source.read_bytes(), random))
    return ["lint", str(path)]


def _detection(folder: Path, random: random.Random) -> list[str]:
    arguments = ["detect", *_picture(folder, random)[1:], "--model", "digits-detect"]
    if random.random() < 0.5:
        arguments += ["--save", str(folder / "drawn")]
    if random.random() < 0.3:
        boxes = (
            b'{"images": [{"id": 1, "file_name": "x.png", "width": 9, "height": 9}], "annotations": [{"id": 1, '
            b'"image_id": 1, "category_id": 7, "bbox": [0, 0, 5, 5], "area": 25, "iscrowd": 0}], "categories": '
            b'[{"id": 7, "name": "7"}]}'
        )
        (folder / "boxes.json").write_bytes(_maybe_damaged(boxes, random))
        arguments += ["--labels", str(folder / "boxes.json")]
    return arguments


def _onnx(folder: Path, random: random.Random) -> list[str]:
    """Return a network that is imported when the command runs."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    weights = np.linspace(-1, 1, FEATURES * 3, dtype=np.float32).reshape(3, FEATURES)
    nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["y"], transB=1), helper.make_node("Softmax", ["y"], ["z"])]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", FEATURES])],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, ["n", 3])],
        [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(np.zeros(3, np.float32), "b")],
    )
    content = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()
    (folder / "net.onnx").write_bytes(_maybe_damaged(content, random))
    return ["ffnn", "--data", str(ROOT / "samples" / "digits-X.bin"), "--model", str(folder / "net.onnx"), "--quiet"]


def _profile(folder: Path, random: random.Random) -> list[str]:
    """Return a profile as neuron-explorer exports it, or bytes that begin like a raw profile."""
    if random.random() < 0.3:
        path = folder / "x.ntff"
        path.write_bytes(random.choice((b"NTFF", b"\x0a", b"")) + random.randbytes(random.choice((0, 60, 3000))))
        return ["profile", str(path)]
    event = {"timestamp": 5000, "duration": 630, "subgraph": "sg00"}
    rows = [
        {**event, "id": number, "subgroup": engine, "label": engine, "opcode": "COPY", "instruction_type": "REGULAR",
         "bir_instruction_name": f"I-{number}", "operands": "", "predecessors": [{"id": number - 1, "type": "FLOW"}]}
        for number, engine in enumerate(("Tensor", "Vector", "Scalar", "Sync"))
    ]  # fmt: skip
    packets = [{**event, "dma_engine": "64", "queue_type": "static", "transfer_size": 4, "read_size": 4}]
    profile = {"warnings": [], "instruction": rows, "dma": packets, "metadata": [{"ntff_version": 6}]}
    (folder / "x.json").write_bytes(_maybe_damaged(json.dumps(profile).encode(), random))
    return ["profile", str(folder / "x.json")]


KINDS: dict[str, Callable[[Path, random.Random], list[str]]] = {
    "features": _features,
    "picture": _picture,
    "model": _model,
    "source": _script,
    "detection": _detection,
    "onnx": _onnx,
    "profile": _profile,
}


def command_line(kind: str, folder: Path, random: random.Random) -> list[str]:
    """Write files into `folder` and return a command line that reads them, possibly with unusual options."""
    arguments = KINDS[kind](folder, random)
    form = random.choice(("table", "csv", "json", "ndjson"))
    if arguments[0] not in ("lint", "profile"):
        arguments += ["--format", form]
        if random.random() < 0.3:
            arguments += ["--output", str(folder / "out")]
    while random.random() < 0.3:
        arguments.append(random.choice(_OPTIONS))
        if random.random() < 0.8:
            arguments.append(random.choice(_WORDS))
    return arguments


def examine(arguments: Sequence[str], folder: Path) -> str | None:
    """Run a command line in this process, in `folder`. Return the violation, or None if there is none."""
    out, err = io.StringIO(), io.StringIO()
    before = os.getcwd()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = run(arguments)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return f"traceback: {''.join(traceback.format_exception(error)).strip()}"
    finally:
        os.chdir(before)
    return _broken(arguments, status, out.getvalue(), err.getvalue(), folder)


def _broken(arguments: Sequence[str], status: int, out: str, err: str, folder: Path) -> str | None:
    if status not in (0, 1, 2, 3):
        return f"exit status {status}"
    for line in err.splitlines():
        fault = _broken_line(line)
        if fault is not None:
            return fault
    if status >= 2 and not err:
        return f"status {status} without a message"
    written = folder / "out"
    text = written.read_text(encoding="utf-8") if written.is_file() else out
    forms = [word for flag, word in pairwise(arguments) if flag == "--format"]
    documents = {"json": [text], "ndjson": text.splitlines()}.get(forms[0], []) if text and len(forms) == 1 else []
    try:
        for document in documents:
            json.loads(document)
    except ValueError as error:
        return f"not {forms[0]}: {error}"
    left = sorted(path.name for path in folder.iterdir() if path.name.startswith("out") and path != written)
    return f"left over: {left}" if left and "kept in" not in err else None


def _broken_line(line: str) -> str | None:
    """Return the violation of a line of standard error, or None."""
    if not line.isprintable() or any(0xD800 <= ord(char) < 0xE000 for char in line):
        return f"not printable: {line!r}"
    if _WARNING.match(line):
        return f"a warning of Python's: {line}"
    if line.startswith("trninfer: ") and len(line) > LONGEST:
        return f"a line of {len(line)} characters: {line}"
    return None


def fuzz(
    seed: int, runs: int | None, seconds: float, kinds: Sequence[str] = tuple(KINDS)
) -> tuple[Counter[str], list[Fault]]:
    """Run `runs` command lines, or as many as can be started within `seconds`.

    Return counts for each kind and status, and the faults.
    """
    counts: Counter[str] = Counter()
    faults: list[Fault] = []
    end = time.monotonic() + seconds
    number = seed
    while (number - seed < runs) if runs is not None else time.monotonic() < end:
        chance = random.Random(number)
        kind = chance.choice(kinds)
        folder = Path(tempfile.mkdtemp(prefix="trninfer-fuzz-"))
        try:
            arguments = command_line(kind, folder, chance)
            problem = examine(arguments, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        counts[f"{kind}: {'fault' if problem else 'sound'}"] += 1
        if problem:
            faults.append(Fault(number, arguments, problem))
        number += 1
    return counts, faults


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz according to the arguments, and print counts and faults. Return 1 if there are faults."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="duration (default: 60)")
    parser.add_argument("--runs", type=int, help="number of command lines, instead of --seconds")
    parser.add_argument("--seed", type=int, default=0, help="number of the first run (default: 0)")
    parser.add_argument("--kind", choices=tuple(KINDS), action="append", help="kind of file to damage (default: all)")
    options = parser.parse_args(arguments)
    counts, faults = fuzz(options.seed, options.runs, options.seconds, options.kind or tuple(KINDS))
    for fault in faults:
        print(f"--seed {fault.seed} --runs 1: {fault.arguments!r}\n{fault.what}\n")
    print(", ".join(f"{name} {number}" for name, number in sorted(counts.items())))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

"""`trninfer simulate`: scripts with `import nki`, and one line for each launch."""

import json
import os
import re
import subprocess
import sys

import pytest

KERNEL = """
import sys

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


@nki.jit
def doubled(a):
    tile = nl.ndarray(a.shape, a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile{part})
    return out


if __name__ == "__main__":
    print(doubled{grid}(np.ones((128, 4), np.float32)).sum(), sys.argv[1:])
"""


def start(folder, *arguments, **variables):
    environment = {k: v for k, v in os.environ.items() if k != "NEURON_PLATFORM_TARGET_OVERRIDE"}
    return subprocess.run(
        [sys.executable, "-m", "trninfer", "simulate", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**environment, **variables},
        check=False,
    )


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "kernel.py").write_text(KERNEL.format(part="", grid=""), encoding="utf-8")
    (tmp_path / "pair.py").write_text(KERNEL.format(part="", grid="[2]"), encoding="utf-8")
    (tmp_path / "empty.py").write_text("import nki\n", encoding="utf-8")
    (tmp_path / "a.ipynb").write_text('{"cells": []}', encoding="utf-8")
    (tmp_path / "broken.py").write_text("import nki\nraise ValueError('no luck')\n", encoding="utf-8")
    return tmp_path


@pytest.mark.slow
def test_a_launch_is_a_line_and_the_target_is_trn2(folder):
    done = start(folder, "kernel.py", "--size", "7")
    assert (done.returncode, done.stdout) == (0, "1024.0 ['--size', '7']\n"), done.stderr
    line, *lines = done.stderr.splitlines()
    assert len(lines) == 3 and re.fullmatch(r"  kernel.py:\d+ [\d.]+ us \(.*dma_latency [\d.]+.*\), busy .*", lines[0])
    assert line.startswith("doubled([128, 4] float32) on trn2: ") and "us predicted, bound by launch" in line
    assert " on trn1: " in start(folder, "--target", "trn1", "kernel.py").stderr
    assert " on trn3: " in start(folder, "kernel.py", NEURON_PLATFORM_TARGET_OVERRIDE="trn3").stderr


def test_trace_and_report_hold_every_launch(folder):
    done = start(folder, "--trace", "out.json", "--report", "out.html", "pair.py")
    assert done.returncode == 0, done.stderr
    events = json.loads((folder / "out.json").read_text(encoding="utf-8"))["traceEvents"]
    assert {"tensor_scalar", "doubled"} <= {event["name"] for event in events}
    page = (folder / "out.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>") and "trninfer simulate: pair.py" in page and "core 1" in page
    assert "Line by line" in page and "Use of SBUF and PSUM" in page


def test_findings_are_printed_and_end_with_1(folder):
    assert start(folder, "--sanitize", "kernel.py").returncode == 0
    done = start(folder, "--sanitize", "pair.py")
    assert done.returncode == 1
    assert "pair.py:16: race: core 1's dma_copy writes" in done.stderr


@pytest.mark.slow
def test_the_sanitize_option_may_select_kinds(folder):
    text = (folder / "kernel.py").read_text(encoding="utf-8").replace("operand0=2.0", "operand0=3e38")
    (folder / "large.py").write_text(text, encoding="utf-8")
    done = start(folder, "--lines", "0", "--sanitize=numeric", "large.py", "--sanitize=mine")
    assert done.returncode == 0 and "['--sanitize=mine']" in done.stdout, done.stderr
    (folder / "large.py").write_text(text.replace("np.ones((128, 4), np.float32)", "np.full((128, 4), 9, np.float32)"))
    done = start(folder, "--sanitize=all", "large.py")
    assert done.returncode == 1 and re.search(
        r"large.py:\d+: infinity: tensor_scalar computes inf .* from 9;", done.stderr
    )
    done = start(folder, "--sanitize=speed", "large.py")
    assert done.returncode == 2
    assert done.stderr == (
        "trninfer: --sanitize=speed: unknown option; use one of --sanitize=memory, --sanitize=numeric, --sanitize=all\n"
    )


def test_a_sweep_prints_a_table_of_variants(folder):
    text = (folder / "kernel.py").read_text(encoding="utf-8").replace("operand0=2.0", "operand0=FACTOR")
    text = text.replace("if __name__", "FACTOR = 2.0\nif __name__")
    (folder / "kernel.py").write_text(f"{text}    assert FACTOR > 1\n", encoding="utf-8")
    done = start(folder, "--sweep", "FACTOR=2.0,0.5", "kernel.py")
    head, good, bad = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "") and "us predicted (trn2)" in head
    assert good.startswith("FACTOR=2.0") and bad.startswith("FACTOR=0.5") and "AssertionError" in bad
    done = start(folder, "--target", "trn1", "--sweep", "FACTOR=0.5", "kernel.py")
    assert done.returncode == 1 and "(trn1)" in done.stdout
    for options, message in (
        (("--sweep", "N=1"), "no line `N = ...`"),
        (("--sweep", "FACTOR=1", "--sanitize"), "--sweep cannot be combined with"),
    ):
        done = start(folder, *options, "kernel.py")
        assert done.returncode == 2 and message in done.stderr and len(done.stderr.splitlines()) == 1


@pytest.mark.slow
def test_failures_are_reported(folder):
    done = start(folder, "broken.py")
    assert done.returncode == 1 and "ValueError: no luck" in done.stderr and "runpy" not in done.stderr
    (line,) = start(folder, "empty.py").stderr.splitlines()
    assert line.startswith("empty.py: no kernel was launched; the script must call a kernel")
    for arguments, text in (
        (["missing.py"], "missing.py: no such file"),
        (["--trace", "none/out.json", "kernel.py"], "does not exist"),
        (["--trace", "kernel.py", "kernel.py"], "--trace kernel.py: this file is read as input"),
        (["--report", "kernel.py", "kernel.py"], "--report kernel.py: this file is read as input"),
        (["."], "not a regular file"),
        (["a.ipynb"], "a notebook; convert it to a Python file"),
        ([], "FILE"),
    ):
        done = start(folder, *arguments)
        assert done.returncode == 2 and text in done.stderr and "Traceback" not in done.stderr
    wrong = start(folder, "kernel.py", NEURON_PLATFORM_TARGET_OVERRIDE="trn9")
    assert wrong.returncode == 2 and "trn9" in wrong.stderr and "Traceback" not in wrong.stderr


def start_away(folder, before, after=""):
    """Run a script that executes `before` and `after` around its launch, in a separate folder, and return both
    files."""
    place = folder / "place"
    place.mkdir()
    text = f"import os, sys, shutil, resource\n{before}\n" + KERNEL.format(part="", grid="") + f"    {after}\n"
    (folder / "away.py").write_text(text, encoding="utf-8")
    return place, start(place, "--trace", "t.json", "--report", "r.html", "../away.py")


@pytest.mark.parametrize(
    "before, after",
    [
        pytest.param("os.chdir('..')", "", marks=pytest.mark.slow),
        ("os.chdir('..'); shutil.rmtree('place')", ""),
        ("sys.stderr.close()", "sys.stdout.close()"),
        pytest.param("", "sys.stderr = None", marks=pytest.mark.slow),
    ],
)
def test_files_are_written_to_the_given_paths_whatever_the_script_does(folder, before, after):
    place, done = start_away(folder, before, after)
    assert "Traceback" not in done.stderr and done.returncode in (0, 1)
    assert json.loads((place / "t.json").read_text())["traceEvents"] and "doubled" in (place / "r.html").read_text()
    assert not (folder / "t.json").exists() and not (folder / "r.html").exists()


@pytest.mark.slow
def test_a_file_that_cannot_be_written_is_named_and_the_other_is_written(folder):
    place, done = start_away(
        folder, "", "sys.dont_write_bytecode = True; resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))"
    )
    assert done.returncode == 2 and "Traceback" not in done.stderr
    told = [line for line in done.stderr.splitlines() if line.startswith("trninfer: ")]
    assert [line.partition("/")[0] for line in told] == ["trninfer: --trace ", "trninfer: --report "]
    assert all("cannot be written: File too large" in line for line in told) and list(place.iterdir()) == []
    place.rmdir()
    place, done = start_away(folder, "", "os.mkdir('t.json')")
    assert done.returncode == 2 and "--trace" in done.stderr and (place / "r.html").exists()


@pytest.mark.parametrize(
    "line, count, told",
    [
        ("x=1\n", 1_100_000, "the script has 4 MiB, but at most 4 MiB are run"),
        pytest.param("\n", 200_001, "the script has 200,001 lines", marks=pytest.mark.slow),
    ],
)
def test_scripts_that_are_too_long_are_reported_and_not_compiled(folder, line, count, told):
    (folder / "long.py").write_text(line * count, encoding="utf-8")
    done = start(folder, "long.py")
    assert done.returncode == 2 and done.stderr.startswith(f"trninfer: long.py: {told}")
    assert len(done.stderr.splitlines()) == 1


OLD_KERNELS = """\
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl

@nki.jit
def doubled(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.add(nl.load(a), nl.load(a)))
    return out
"""
OLD_HARNESS = """\
import argparse, logging
import numpy as np
import neuronxcc.nki as nki
from old_kernels import doubled

logging.disable(logging.OFF)
parser = argparse.ArgumentParser()
parser.add_argument("-n", type=int)
a = np.ones((parser.parse_args().n, 64), np.float32)
print(np.allclose(nki.simulate_kernel(doubled, a), 2 * a))
timed = nki.benchmark(warmup=5, iters=20)(doubled)
timed(a)
print(timed.benchmark_result.nc_latency.get_latency_percentile(99))
"""


@pytest.fixture
def course(tmp_path):
    (tmp_path / "old_kernels.py").write_text(OLD_KERNELS)
    (tmp_path / "run_benchmark.py").write_text(OLD_HARNESS)
    return tmp_path


def test_a_harness_of_an_older_dialect_runs_as_it_is(course):
    done = start(course, "--lines", "0", "run_benchmark.py", "-n", "128")
    right, latency = done.stdout.split()
    migrated, kernels, *launches = done.stderr.splitlines()
    assert done.returncode == 0 and right == "True"
    assert "run_benchmark.py: an older NKI dialect, migrated in memory" in migrated
    assert kernels.startswith("old_kernels.py: ") and len(launches) == 2
    assert all(f"{float(latency):.1f} us predicted" in line and "3 DMAs of 32 KiB" in line for line in launches)


@pytest.mark.slow
def test_launches_as_json_with_the_dmas_and_what_the_script_prints_beside(course):
    latencies = []
    for options in ([], ["--disable-dge"]):
        done = start(course, *options, "--format", "json", "run_benchmark.py", "-n", "128")
        report = json.loads(done.stdout)
        first, second = report["launches"]
        assert report["schema_version"] == 1 and "True" in done.stderr
        assert first["latency_kind"] == "predicted" and first["latency_us"] == second["latency_us"]
        size = 128 * 64 * 4
        assert first["dma"] == {
            "count": 3, "bytes": 3 * size, "average_bytes": size, "count_by_bytes": {str(size): 3}
        }  # fmt: skip
        latencies.append(first["latency_us"])
    assert latencies[0] != latencies[1]
    done = start(course, "--format", "yaml", "run_benchmark.py")
    assert done.returncode == 2 and "--format yaml: allowed: table, json" in done.stderr


REUSING = """
import nki, nki.isa as nisa, nki.language as nl, numpy as np

@nki.jit
def copied(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.sbuf)
    for i in range(0, a.shape[1], 512):
        nisa.dma_copy(dst=tile, src=a[:, i : i + 512])
        nisa.dma_copy(dst=out[:, i : i + 512], src=tile)
    return out

copied(np.zeros((128, 4096), np.float32))
"""


def test_advice_is_printed_in_the_document_and_on_the_page(folder):
    (folder / "reusing.py").write_text(REUSING, encoding="utf-8")
    done = start(folder, "--report", "out.html", "--format", "json", "reusing.py")
    (launch,) = json.loads(done.stdout)["launches"]
    gain = launch["reuse"]["gain_us"]
    advice = f"a new tile for each use would save {gain:.1f} of {launch['latency_us']:.1f} us"
    line = f"  advice: tile tile (reusing.py:7) is reused: 7 loads wait for its last reader; {advice}"
    assert line in done.stderr.splitlines()
    assert [tile["waits"] for tile in launch["reuse"]["tiles"]] == [7]
    assert advice in (folder / "out.html").read_text(encoding="utf-8")


def test_a_kernel_stops_at_the_instructions_that_are_allowed(tmp_path):
    (tmp_path / "reusing.py").write_text(REUSING)
    done = start(tmp_path, "--max-instructions", "3", "reusing.py")
    assert done.returncode == 1
    assert (
        "issued 3 instructions and may not end; to allow more, use trninfer simulate --max-instructions N"
        in done.stderr
    )

"""`trninfer profile`: its output, also beside a kernel, and its exit status."""

from pathlib import Path

import pytest
from made_ntff import made_ntff, write_ntff
from made_profiles import write
from trninfer.app.main import run

KERNEL = """
import numpy as np, nki, nki.isa as nisa, nki.language as nl

@nki.jit
def doubled(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.add)
    nisa.dma_copy(dst=out, src=tile)
    return out

doubled(np.ones((128, 512), np.float32))
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "full.json")
    write_ntff(tmp_path / "raw.ntff", made_ntff())
    write_ntff(tmp_path / "cut.ntff", made_ntff()[:-9])
    (tmp_path / "kernel.py").write_text(KERNEL)
    (tmp_path / "raises.py").write_text("raise ValueError(1)\n")
    (tmp_path / "silent.py").write_text("x = 1\n")
    return tmp_path


def test_a_measured_run(folder, capsys):
    assert run(["profile", "full.json"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("full.json: measured 11.69 us, 7 instructions\n")
    assert "hardware        2        8,192" in out and "launch         5.00  42.8 %" in out
    assert "11.00    0.690  vector     TENSOR_TENSOR" in out and "predicted" not in out


def test_a_raw_profile(folder, capsys):
    assert run(["profile", "raw.ntff", "--kernel", "kernel.py"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("raw.ntff: measured 6.00 us") and "software        1        4,096" in out
    assert "gpsimd: DMA after its data  1 / 1" in out


def test_beside_the_prediction(folder, capsys):
    assert run(["profile", "full.json", "--kernel", "kernel.py", "--steps", "0"]) == 0
    out = capsys.readouterr().out
    assert "doubled on trn2: predicted 2" in out and "from us" not in out
    assert "vector: two tensors  1 / 1   690 / 691" in out


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (["none.json"], 2, "none.json: no such file or folder"),
        (["kernel.py"], 2, "kernel.py: not JSON"),
        (["cut.ntff"], 2, "cut.ntff: truncated"),
        (["."], 2, "the folder contains no Instruction.parquet"),
        (["full.json", "--kernel", "none.py"], 2, "--kernel none.py: no such file"),
        (["full.json", "--kernel", "silent.py"], 2, "--kernel silent.py: no kernel was launched"),
        (["full.json", "--kernel", "raises.py"], 1, "ValueError"),
        (["full.json", "--core", "1", "--steps", "x"], 2, "--steps"),
    ],
)
def test_unreadable_profile_is_reported(folder, capfd, arguments, status, told):
    assert run(["profile", *arguments]) == status
    err = capfd.readouterr().err
    assert told in err
    assert status == 1 or ("Traceback" not in err and len(err.strip().splitlines()) <= 3)


def test_a_pipe_is_not_waited_for(folder, capsys):
    import os

    os.mkfifo(Path("pipe"))
    assert run(["profile", "pipe"]) == 2
    assert "neither a file nor a folder" in capsys.readouterr().err

"""Launches as AWS documents them (nki/guides/nki_simulator.rst): what goes in, what comes out, what is changed."""

import subprocess
import sys

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from trninfer.simulator import NkiValidationError


@nki.jit
def accumulate(total, rows):
    """total += every row tile, in place; their sum comes back too."""
    held = nl.load(total)
    for row in rows:
        nisa.tensor_tensor(held, held, nl.load(row), nl.add)
    nisa.dma_copy(total, held)
    out = nl.ndarray(total.shape, total.dtype, nl.shared_hbm)
    nisa.dma_copy(out, held)
    return {"sum": out, "count": len(rows)}


@nki.jit
def rounded(a):
    tile = nl.ndarray(a.shape, nl.bfloat16, nl.sbuf)
    nisa.dma_copy(tile, a)
    out = nl.ndarray(a.shape, nl.bfloat16, nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return out


@nki.jit
def unfinished(a):
    tile = nl.ndarray(a.shape, a.dtype, nl.sbuf)
    nisa.dma_copy(tile[:, 0:1], a[:, 0:1])
    out = nl.ndarray(a.shape, a.dtype, nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return out


def test_containers_of_arrays_go_in_and_out_and_what_is_written_is_updated():
    total = np.ones((4, 6), np.float32)[:, ::2]  # a view: its own elements are updated
    rows = [np.full((4, 3), float(i), np.float32) for i in range(3)]
    result = nki.simulate(accumulate)(total, rows)
    assert result["count"] == 3
    np.testing.assert_array_equal(result["sum"], np.full((4, 3), 4.0))
    np.testing.assert_array_equal(total, result["sum"])
    np.testing.assert_array_equal(rows[2], np.full((4, 3), 2.0))


def test_an_array_that_cannot_be_updated_is_told():
    total = np.broadcast_to(np.float32(1), (4, 3))
    with pytest.raises(NkiValidationError, match=r"writes to its argument \[4, 3\] float32, a read-only array"):
        accumulate(total, [])


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int32", "uint8"])
def test_pytorch_tensors_come_back_as_such_and_are_updated(name):
    torch = pytest.importorskip("torch")
    dtype = getattr(torch, name)
    total, row = torch.ones(4, 3).to(dtype), (torch.arange(12) % 3).reshape(4, 3).to(dtype)
    result = nki.simulate(accumulate)(total, [row])["sum"]
    assert result.dtype == dtype
    assert torch.equal(result.float(), row.float() + 1)
    assert torch.equal(total.float(), result.float())


@pytest.mark.parametrize("precise", ["1", "0"])
def test_narrow_floats_are_rounded_unless_precision_is_asked_for(monkeypatch, precise):
    monkeypatch.setenv("NKI_PRECISE_FP", precise)
    values = np.array([[1 + 2.0**-12, np.pi]], np.float32)
    result = nki.simulate(rounded)(values)
    expected = values.astype(ml_dtypes.bfloat16) if precise == "1" else values
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3])
def test_memory_that_was_never_written_reads_as_nan(dtype):
    result = nki.simulate(unfinished)(np.ones((4, 3), dtype)).astype(np.float32)
    np.testing.assert_array_equal(result[:, 0], np.ones(4))
    assert np.isnan(result[:, 1:]).all()


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.int16])
def test_integer_memory_that_was_never_written_reads_as_four(dtype):
    result = nki.simulate(unfinished)(np.ones((4, 3), dtype))
    np.testing.assert_array_equal(result, [[1, 4, 4]] * 4)


def test_a_failing_script_shows_its_own_frames_only(tmp_path):
    script = tmp_path / "broken.py"
    script.write_text("def fail():\n    raise ValueError('no luck')\n\nfail()\n")
    done = subprocess.run(
        [sys.executable, "-m", "trninfer.simulator", "broken.py"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "no luck" in done.stderr and "broken.py" in done.stderr
    assert "runpy" not in done.stderr

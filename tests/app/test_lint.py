"""`trninfer lint`: its output and exit status."""

import errno
import os
from pathlib import Path

import pytest
from trninfer.app.main import run
from trninfer.simulator.checking.lint.source import MAX_SOURCE_BYTES, MAX_SOURCE_LINES

CLEAN = "import nki\n\n@nki.jit\ndef kernel(a):\n    return a\n"
BROKEN = "import nki\n\n@nki.jit\ndef kernel(a):\n    nki.trace(a)\n"
WARNED = "import nki, time\n\n@nki.jit\ndef kernel(a):\n    print(time.time())\n    return a\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in (("clean.py", CLEAN), ("broken.py", BROKEN), ("host.py", "print(1)\n"), ("bad.py", "def (\n")):
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_clean_file_is_silent(folder, capsys):
    assert run(["lint", "clean.py"]) == 0
    assert capsys.readouterr() == ("", "")


def test_findings_go_to_standard_output_and_exit_with_1(folder, capsys):
    assert run(["lint", "clean.py", "broken.py", "./broken.py", "broken.py"]) == 1
    out, err = capsys.readouterr()
    assert out == "broken.py:5: old-dialect: nki.trace was removed: use nki.jit\n"
    assert err == ""


def test_a_file_that_cannot_be_checked_is_named_the_others_are_checked_and_the_status_is_2(folder, capsys):
    assert run(["lint", "bad.py", "missing.py", "broken.py"]) == 2
    out, err = capsys.readouterr()
    assert out.startswith("broken.py:5: ")
    assert err.splitlines() == [
        "trninfer: bad.py:1: not Python source: invalid syntax",
        "trninfer: missing.py: cannot be read: No such file or directory",
    ]


def test_irregular_file_is_reported_without_waiting(folder, capsys):
    os.mkfifo("pipe.py")
    Path("long.py").write_bytes(b"#" * (MAX_SOURCE_BYTES + 1))
    Path("lines.py").write_bytes(b"\n" * (MAX_SOURCE_LINES + 1))
    assert run(["lint", "/dev/zero", "pipe.py", "long.py", "lines.py"]) == 2
    told = capsys.readouterr().err.splitlines()
    assert told[:2] == [f"trninfer: {name}: not a regular file" for name in ("/dev/zero", "pipe.py")]
    assert told[2:] == [
        "trninfer: long.py: the file is larger than 512 KiB, the limit for checking",
        "trninfer: lines.py: the file has more than 20,000 lines, the limit for checking",
    ]


def test_links_that_lead_in_circles_are_an_error_of_one_line(folder, capsys):
    (folder / "loop.py").symlink_to("loop.py")
    assert run(["lint", "loop.py", "host.py"]) == 2
    told = capsys.readouterr().err.splitlines()
    assert told[0].startswith("trninfer: loop.py: ") and os.strerror(errno.ELOOP) in told[0]
    assert len(told) == 2  # the other file is still checked


def test_a_file_without_kernels_is_reported(folder, capsys):
    assert run(["lint", "host.py"]) == 0
    assert capsys.readouterr().err == (
        "trninfer: host.py: nothing was checked, because it contains no function decorated with nki.jit\n"
    )


def test_a_file_of_helpers_is_checked_with_the_kernels_that_use_it(folder, capsys):
    (folder / "helpers.py").write_text("def f(a):\n    return a\n")
    (folder / "user.py").write_text("import nki\nimport helpers\n\n@nki.jit\ndef kernel(a):\n    return helpers.f(a)\n")
    assert run(["lint", "helpers.py", "user.py"]) == 0
    assert capsys.readouterr() == ("", "")


def test_no_file_is_a_wrong_use(capsys):
    assert run(["lint"]) == 2
    assert "requires at least one FILE" in capsys.readouterr().err


def test_the_rules_are_listed(capsys):
    assert run(["lint", "--rules"]) == 0
    out = capsys.readouterr().out
    assert "output-buffer" in out
    assert "old-dialect" in out


def test_warnings_are_printed_and_leave_the_status_0(folder, capsys):
    Path("kernel.py").write_text(WARNED)
    assert run(["lint", "kernel.py"]) == 0
    assert capsys.readouterr().out.startswith("kernel.py:5: warning: frozen-value: time.time is read once")


def test_a_folder_is_checked_file_by_file(folder, capsys):
    (folder / "inner").mkdir()
    (folder / ".hidden").mkdir()
    Path("inner", "broken.py").write_text(BROKEN)
    Path(".hidden", "broken.py").write_text(BROKEN)
    Path("bad.py").unlink()
    assert run(["lint", "."]) == 1
    out, err = capsys.readouterr()
    assert [line.split(":")[0] for line in out.splitlines()] == ["broken.py", "inner/broken.py"] and err == ""
    (folder / "empty").mkdir()
    assert run(["lint", "empty"]) == 2
    assert capsys.readouterr().err == "trninfer: empty: contains no Python files or notebooks\n"


REFUSED = """\
import nki, nki.isa as nisa, nki.language as nl, numpy as np

@nki.jit
def kernel(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a)
    nisa.dma_copy(dst=out, src=tile)
    return out

open("ran", "w")
"""


def test_kernels_run_on_the_shapes_that_are_found(folder, capsys):
    path = folder / "sizes.py"
    path.write_text(REFUSED)
    assert run(["lint", "sizes.py"]) == 0
    assert run(["lint", "--shapes", "128x4", "sizes.py"]) == 0
    capsys.readouterr()
    assert run(["lint", "--shapes", "256x4", "sizes.py"]) == 1
    assert capsys.readouterr().out.startswith("sizes.py:6: refused: kernel: ")
    path.write_text(REFUSED + "kernel(np.ones((256, 4)))\n")
    assert run(["lint", "sizes.py"]) == 1 and run(["lint", "--static", "sizes.py"]) == 0
    assert not Path("ran").exists()
    assert run(["lint", "--shapes", "4by4", "sizes.py"]) == 2
    assert "--shapes: the shape '4by4'" in capsys.readouterr().err


def test_kernels_that_could_not_run_on_the_given_shapes_are_unchecked(folder, capsys):
    source = "import os\nimport nki\n\n\n@nki.jit\ndef kernel(a):\n    os._exit(3)\n"
    (folder / "ends.py").write_text(source)
    assert run(["lint", "--shapes", "128x4", "ends.py"]) == 2
    assert "ends.py: running its kernels failed" in capsys.readouterr().err


def test_a_silenced_finding_is_not_reported_by_the_run(folder, capsys):
    text = (
        "import nki\nimport nki.isa as nisa\nimport nki.language as nl\n\n\n@nki.jit\ndef kernel(a):\n"
        "    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)\n"
        "    tile = nl.ndarray((256, 512), dtype=nl.float32, buffer=nl.sbuf){}\n"
        "    nisa.dma_copy(dst=out, src=a)\n    return out\n"
    )
    Path("silenced.py").write_text(text.format("  # noqa: tile-size"))
    assert run(["lint", "silenced.py"]) == 0 and capsys.readouterr().out == ""
    Path("silenced.py").write_text(text.format(""))
    assert run(["lint", "silenced.py"]) == 1 and ": tile-size: " in capsys.readouterr().out

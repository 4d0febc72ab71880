"""Scripts that run on the simulator: their environment, the records of their launches, and their errors."""

import ast
import os
import sys

import pytest
from trninfer.simulator import NkiValidationError
from trninfer.simulator.checking.sanitizing import chosen
from trninfer.simulator.running import kernel, script
from trninfer.simulator.running.script import Edits, assigned, describe_work, line_of, lines_of, run_script


def run(folder, text, *arguments, observe=None, **options):
    """Return the exit status of a script with the given text."""
    path = folder / "broken.py"
    path.write_text(text, encoding="utf-8")
    return run_script([str(path), *arguments], observe or (lambda launch, shapes: None), **options)


KERNEL = """
import nki, nki.language as nl, nki.isa as nisa, numpy as np

@nki.jit
def kernel(a):
    tile = nl.load(a)
    {line}
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return {output}

kernel(np.ones((128, 4), np.float32))
"""


def test_launches_are_shown_in_order(tmp_path):
    seen = []
    text = KERNEL.format(line="pass", output="out") + "nki.simulate(kernel)(np.ones((2, 3), np.float16))\n"
    assert run(tmp_path, text, observe=lambda launch, shapes: seen.append((launch, shapes)), target="trn1") == 0
    assert [shapes for _, shapes in seen] == [["[128, 4] float32"], ["[2, 3] float16"]]
    launch = seen[0][0]
    bound = f"bound by {launch.bound_by}, {describe_work(launch)}"
    assert line_of(launch, seen[0][1]).startswith(
        f"kernel([128, 4] float32) on trn1: {launch.latency_us:.1f} us predicted, {bound}"
    )
    lines = lines_of(launch, 1)
    assert len(lines) == 1 and lines[0].startswith("  ") and "broken.py:" in lines[0]
    assert not kernel.observers


def test_a_script_sees_its_arguments_its_folder_and_the_target(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("NKI_SIMULATOR", raising=False)
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "gen2")
    (tmp_path / "beside.py").write_text("NAME = 'beside'\n")
    text = "import os, sys, beside\nprint(sys.argv[1:], beside.NAME, __name__, os.environ['NKI_SIMULATOR'])\n"
    text += "print(os.environ['NEURON_PLATFORM_TARGET_OVERRIDE'])\n"
    argv, path = list(sys.argv), list(sys.path)
    assert run(tmp_path, text, "--all", "7") == run(tmp_path, text, target="trn3") == 0
    assert capsys.readouterr().out.splitlines() == [
        "['--all', '7'] beside __main__ 1",
        "trn1",
        "[] beside __main__ 1",
        "trn3",
    ]
    assert (sys.argv, sys.path) == (argv, path)
    assert os.environ["NEURON_PLATFORM_TARGET_OVERRIDE"] == "gen2" and "NKI_SIMULATOR" not in os.environ
    sys.modules.pop("beside")


@pytest.mark.parametrize(
    ("text", "status", "shown"),
    [
        ("import sys; sys.exit()", 0, ""),
        ("import sys; sys.exit(3)", 3, ""),
        ("import sys; sys.exit('no more')", 1, "no more\n"),
        ("raise KeyboardInterrupt", 130, ""),
    ],
)
def test_exit_statuses(tmp_path, capsys, text, status, shown):
    assert run(tmp_path, text) == status
    assert capsys.readouterr().err == shown


def test_a_failing_script_shows_its_own_frames_only(tmp_path, capsys):
    assert run(tmp_path, "def fail():\n    raise ValueError('no luck')\n\nfail()\n") == 1
    shown = capsys.readouterr().err
    assert "no luck" in shown and "broken.py" in shown
    assert "runpy" not in shown and "script.py" not in shown


@pytest.mark.parametrize(
    ("line", "output", "shown", "message"),
    [
        ("nisa.tensor_copy(dst=tile[:, 0:2], src=tile)", "out", (12, 7), "NkiValidationError: tensor_copy: src "),
        ("nisa.tensor_copi(dst=tile, src=tile)", "out", (12, 7), "did you mean 'tensor_copy'?"),
        ("tile = tile * 2", "out", (12, 7), "OperatorError: * of sbuf[128, 4] float32: NKI has no operators"),
        ("assert a.shape[1] == 3, 'three columns'", "out", (12, 7), "AssertionError: three columns"),
        ("pass", "tile", (12,), "outputs must be in nl.shared_hbm"),
    ],
)
def test_a_kernel_that_breaks_a_rule_shows_its_own_lines_and_one_of_ours(
    tmp_path, capsys, line, output, shown, message
):
    assert run(tmp_path, KERNEL.format(line=line, output=output)) == 1
    told = capsys.readouterr().err.splitlines()
    frames = [each.split(", ")[1] for each in told if each.startswith("  File ")]
    assert frames == [f"line {number}" for number in shown], told
    assert message in told[-1]


@pytest.mark.parametrize(("text", "message"), [("def f(:\n", "SyntaxError"), ("\0", "null bytes")])
def test_a_file_that_is_no_python_is_named_without_a_frame_of_ours(tmp_path, capsys, text, message):
    assert run(tmp_path, text) == 1
    shown = capsys.readouterr().err
    assert message in shown and "broken.py" in shown
    assert "runpy" not in shown and "script.py" not in shown


def test_checks_apply_only_inside_the_block(tmp_path, capsys):
    text = "from trninfer.simulator.checking import sanitizing\nprint(sorted(sanitizing.chosen()))\n"
    assert run(tmp_path, text, sanitize="all") == 0
    assert capsys.readouterr().out == "['memory', 'numeric']\n" and chosen() == frozenset()


def test_constants_at_the_top_level_are_replaced(tmp_path, capsys):
    text = (
        "ROWS = 3\nCOLUMNS: int = 4\n\ndef f():\n    ROWS = 5\n    return ROWS\nprint(ROWS, COLUMNS, f(), __name__)\n"
    )
    before = sys.modules["__main__"]
    constants = {name: ast.parse(value, mode="eval").body for name, value in (("ROWS", "2 + 5"), ("COLUMNS", "[1]"))}
    assert run(tmp_path, text, edits=Edits(constants)) == 0
    assert capsys.readouterr().out == "7 [1] 5 __main__\n"
    assert sys.modules["__main__"] is before


@pytest.mark.parametrize(
    ("statement", "names"),
    [
        ("A = 1", {"A"}),
        ("A: int = 1", {"A"}),
        ("A: int", set()),
        ("A = B = 1", set()),
        ("A, B = 1, 2", set()),
        ("A.b = 1", set()),
        ("A += 1", set()),
    ],
)
def test_names_that_a_statement_assigns(statement, names):
    assert assigned(ast.parse(statement).body[0]) == names


def test_unusable_script_is_refused_in_one_line(tmp_path, monkeypatch):
    with pytest.raises(NkiValidationError, match="trn9"):
        run(tmp_path, "", target="trn9")
    monkeypatch.setattr(script, "MAX_SCRIPT_LINES", 10)
    with pytest.raises(
        NkiValidationError, match=r"broken.py: the script has 11 lines, but at most 10 are run; keep data"
    ):
        run(tmp_path, "\n" * 11)
    assert run(tmp_path, "\n" * 10) == 0
    monkeypatch.setattr(script, "MAX_SCRIPT_BYTES", 2 << 20)
    with pytest.raises(
        NkiValidationError, match="the script has 3 MiB, but at most 2 MiB are run; keep data in a file that"
    ):
        run(tmp_path, "#" * (3 << 20))

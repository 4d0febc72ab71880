"""Launch grids: programs that ran sequentially become iterations of a loop in the kernel."""

import numpy as np
import pytest

pytest.importorskip("libcst")
from migrated_kernels import migrate_kernel, migrated, run_migrated

BODY = '''
    """Each program has two rows and three columns."""
    columns = a.shape[1]
    rows = a.shape[0]
    half = rows // 2
    out = nl.ndarray((half, columns), dtype=a.dtype, buffer=nl.shared_hbm)
    i = nl.program_id(0) * 2 + nl.arange(2)[:, None]
    j = nl.program_id(1) * 3 + nl.arange(3)[None, :]
    x = nl.load(a[i, j])
    nl.store(out[i, j], x * 2)
    return out
'''


def test_a_loop_over_each_axis_computes_what_the_programs_did():
    text = migrated(BODY)
    assert text.splitlines()[0] == '"""Each program has two rows and three columns."""'
    lines = [line.strip() for line in text.splitlines()]
    assert lines.index("for program_0 in range(grid[0]):") + 1 == lines.index("for program_1 in range(grid[1]):")
    assert "def kernel(a, grid = (1, 1,)):\n" in migrate_kernel(BODY).text


def test_the_programs_of_a_grid_write_the_whole_output():
    a = np.arange(8 * 6, dtype=np.float32).reshape(8, 6)
    np.testing.assert_array_equal(run_migrated(BODY, a, (2, 2)), a[:4] * 2)


def test_outputs_and_their_dependencies_precede_the_loop():
    lines = migrated(BODY).splitlines()
    loop = next(at for at, line in enumerate(lines) if line.startswith("for program_0"))
    assert lines[1].startswith("assert nl.num_programs(0) == 1, ")
    assert [line.split(" = ")[0] for line in lines[2:loop]] == ["columns", "rows", "half", "out"]
    assert lines[-1] == "return out"


def test_the_highest_axis_counts():
    body = "out = nl.ndarray((4, 4), nl.float32, buffer=nl.shared_hbm)\np = nl.program_id(axis=1)\nreturn out"
    assert "for program_1 in range(grid[1]):\n        p = program_1" in migrated(body)


def test_an_output_that_depends_on_the_program_is_left_to_the_author():
    body = "n = nl.program_id(0)\nout = nl.ndarray((n, 4), nl.float32, buffer=nl.shared_hbm)\nreturn out"
    migration, why = migrate_kernel(body), "the shape of an output must not depend on nl.program_id"
    assert [note.message for note in migration.notes] == [why] and not migration.is_whole
    assert f"# migrate: {why}\n@nki.jit" in migration.text
    assert "    program_0 = nl.program_id(0)\n    grid = (nl.num_programs(0),)\n" in migration.text


def test_the_size_of_the_grid_is_its_argument():
    body = "out = nl.ndarray((4, 4), nl.float32, buffer=nl.shared_hbm)\n"
    body += "n = nl.num_programs(axes=0) * nl.num_programs(1) + nl.program_id(0)\nreturn out"
    assert "n = grid[0] * grid[1] + program_0" in migrated(body)


def test_a_launch_on_cores_is_refused():
    """If the migration does not know the name, kernel[2] would run one program on each core."""
    text = migrate_kernel(BODY).text + "\nrun = lambda k, a: k[2](a)\n"
    space = {"__name__": "grid"}
    exec(compile(text, "<grid>", "exec"), space)
    with pytest.raises(AssertionError, match="the launch grid is an argument"):
        space["run"](space["kernel"], np.ones((8, 6), np.float32))


def test_a_kernel_that_asks_for_no_program_has_no_grid():
    assert "def kernel(a):\n" in migrate_kernel("x = nl.load(a)\nreturn x").text

"""Tiles that begin at any partition, predicates of any dtype, stored numbers, and outputs left in SBUF."""

import numpy as np
import pytest
from migrated_kernels import FIRST, migrate_kernel, migrated, run_migrated

pytest.importorskip("libcst")
from trninfer.simulator.migrate import CHECK, migrate_source

OUT = "out = nl.ndarray((8, 4), dtype=nl.float32, buffer=nl.shared_hbm)\n"
SQUARE = np.arange(32, dtype=np.float32).reshape(8, 4)


@pytest.mark.parametrize(
    "line, expected",
    [
        ("for i in nl.static_range(8): t[i, 1:3] = i * 5", {(i, j): i * 5 for i in range(8) for j in (1, 2)}),
        ("t[3:5, :] = x[0:2, :]", {(i, j): SQUARE[i - 3, j] for i in (3, 4) for j in range(4)}),
        ("t[0:2, :] = x[5:7, :]", {(i, j): SQUARE[i + 5, j] for i in (0, 1) for j in range(4)}),
        ("t[nl.arange(2)[:, None] + 3, nl.arange(4)[None, :]] = 2.5", {(i, j): 2.5 for i in (3, 4) for j in range(4)}),
    ],
)
def test_a_part_that_begins_at_any_partition_is_copied_by_a_dma(line, expected):
    body = f"{OUT}x = nl.load(a)\nt = nl.zeros((8, 4), dtype=nl.float32)\n{line}\nnl.store(out, t)\nreturn out"
    golden = np.zeros((8, 4), np.float32)
    for at, value in expected.items():
        golden[at] = value
    assert np.array_equal(run_migrated(body, SQUARE), golden)
    assert "a DMA copies the value there" in migrate_kernel(body).notes[0].message


@pytest.mark.parametrize(
    "lines, starts",
    [
        ("v = t[16:64]\nv[0:16, :] = x[0:16, :]", "(16, 0)"),
        ("v = t[16:64]\nv[16:20, :] = x[0:4, :]", ""),
        ("v = x[5:64]\nt[0:2, :] = v[3:5, :]", "(0, 8)"),
    ],
)
def test_a_part_of_a_part_begins_at_the_sum_of_both_starts(lines, starts):
    text = migrated(f"x = nl.load(a[0:64, 0:4])\nt = nl.zeros((64, 4), dtype=nl.float32)\n{lines}\nreturn a")
    assert (f", {starts})" in text) if starts else "place(" not in text


def test_parts_at_partitions_of_engines_are_copied_by_engines():
    text = migrated("x = nl.load(a[0:128, 0:4])\nfor i in nl.affine_range(4): x[i * 32:i * 32 + 32, 0:2] = 1")
    assert "nisa.memset(dst=x[" in text and "place" not in text


def test_an_operand_at_an_unsupported_partition_is_noted():
    (note,) = migrate_kernel("x = nl.load(a[0:8, 0:4])\ny = nl.add(x[3:5, 0:4], 1.0)\nreturn a").notes
    assert note.kind == CHECK and note.message.startswith("an operand starts at partition 3; engines start at")
    assert not migrate_kernel("x = nl.load(a[0:8, 0:4])\nnl.store(a[0:2, 0:4], x[3:5, 0:4])\nreturn a").notes


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int32, np.float32])
@pytest.mark.parametrize(
    "line, kept",
    [
        ("nisa.tensor_copy_predicated(src=x, dst=t, predicate=p)", True),
        ("nisa.tensor_copy_predicated(src=x, dst=t, predicate=p, reverse_pred=True)", False),
        ("nisa.select_reduce(dst=t, predicate=p, on_true=x, on_false=0.0)", True),
    ],
)
def test_predicates_of_any_dtype(dtype, line, kept):
    predicate = (np.arange(32).reshape(8, 4) % 3 == 0).astype(dtype)
    body = (
        f"{OUT}x = nl.load(a)\np = nl.load(b)\nt = nl.zeros((8, 4), dtype=nl.float32)\n{line}\nnl.store(out, t)\n"
        "return out"
    )
    golden = np.where(predicate.astype(bool) == kept, SQUARE, 0)
    assert np.array_equal(run_migrated(body, SQUARE, predicate, parameters="a, b"), golden)


def test_a_predicate_of_the_right_dtype_is_reversed_too():
    predicate = (np.arange(32).reshape(8, 4) % 3 == 0).astype(np.uint8)
    body = (
        f"{OUT}x = nl.load(a)\np = nl.load(b, dtype=nl.uint8)\nt = nl.zeros((8, 4), dtype=nl.float32)\n"
        "nisa.tensor_copy_predicated(src=x, dst=t, predicate=p, reverse_pred=True)\nnl.store(out, t)\nreturn out"
    )
    found = run_migrated(body, SQUARE, predicate, parameters="a, b")
    assert np.array_equal(found, np.where(predicate, 0, SQUARE))


@pytest.mark.parametrize("value", ["7", "-2.5", "number"])
def test_a_number_is_stored(value):
    found = run_migrated(f"{OUT}number = 3\nnl.store(out, {value})\nreturn out", SQUARE)
    assert np.array_equal(found, np.full((8, 4), 3 if value == "number" else float(value)))


def test_a_sum_that_begins_as_a_number_is_a_tile():
    body = f"{OUT}total = 0.0\nfor _ in range(2):\n    total += nl.load(a)\nnl.store(out, total)\nreturn out"
    assert np.array_equal(run_migrated(body, SQUARE), 2 * SQUARE)


def test_outputs_in_sbuf_are_stored():
    body = "x = nl.load(a)\nreturn x, nl.add(x, 1.0)"
    first, second = run_migrated(body, SQUARE)
    assert np.array_equal(first, SQUARE) and np.array_equal(second, SQUARE + 1)
    assert "outputs of a kernel must be in HBM: x is stored in output_1" in [
        n.message for n in migrate_kernel(body).notes
    ]
    inner = "@nki.jit\ndef inner(a):\n    return nl.load(a[0:8, 0:4])\n\n\n"
    outer = "@nki.jit\ndef kernel(a):\n    nl.store(a, inner(a))\n    return a\n"
    assert "return nl.load(a[0:8, 0:4])" in migrate_source(FIRST + inner + outer).text  # a tile for another kernel


def test_an_unused_initial_value_of_a_cumulative_instruction_is_left_out():
    call = "nisa.tensor_scalar_cumulative(src=x, dst=x, op0=nl.add, op1=nl.add, imm0=0.0, imm1={}{})"
    before = "x = nl.load(a[0:8, 0:4])\n"
    for command in ("", ", reduce_cmd=nisa.reduce_cmd.reduce"):
        assert "imm1" not in migrated(before + call.format("1.0", command))
    assert "imm1=1.0" in migrated(before + call.format("1.0", ", reduce_cmd=nisa.reduce_cmd.load_reduce"))
    (note,) = migrate_kernel(before + call.format("b", ", reduce_cmd=c") + "\nreturn a", "a, b, c").notes
    assert "imm1 is allowed only with reduce_cmd=nisa.reduce_cmd.load_reduce" in note.message


def test_double_rows_are_no_part_of_the_shape_of_a_product():
    before = "x = nl.ndarray((128, 2, 64), dtype=nl.float8_e4m3)\n"
    assert "nl.ndarray((64, 64)" in migrated(before + "y = nisa.nc_matmul(x, x, perf_mode='double_row_gen3')")


def test_a_file_without_imports_is_treated_as_an_excerpt():
    text = "@nki.jit\ndef kernel(a):\n    t = nl.load(a[0:8, 0:4])\n    t += 1.0\n    nl.store(a, t)\n    return a\n"
    migration = migrate_source(text)
    assert migration.text.startswith("import nki\nimport nki.isa as nisa\nimport nki.language as nl\n")
    assert "nisa.tensor_copy(dst=t, src=nl.add(t, 1.0))" in migration.text
    assert migration.notes[0].message.startswith("the file does not import NKI: nki, nl are assumed to be")
    assert migrate_source("nl = 3\nprint(nl.load)\n").notes == ()


def test_a_mask_on_columns_of_an_operand_is_none_on_those_of_statistics():
    """The last part has two columns, but there are still six statistics."""
    body = """
    out = nl.ndarray((8, 12), dtype=nl.float32, buffer=nl.shared_hbm)
    x = nl.load(a)
    s = nl.ndarray((8, 12), dtype=nl.float32)
    p, f, six = nl.arange(8)[:, None], nl.arange(4)[None, :], nl.arange(6)[None, :]
    for j in nl.affine_range(2):
        s[p, j * 6 + six] = nisa.bn_stats(x[p, j * 4 + f], mask=j * 4 + f < 6)
    nl.store(out, s)
    return out
    """
    values = np.arange(48, dtype=np.float32).reshape(8, 6)
    found = run_migrated(body, values)
    assert np.allclose(found[:, 1], values[:, 0:4:2].mean(1)) and np.allclose(found[:, 7], values[:, 4])
    (note,) = migrate_kernel(
        "x = nl.load(a[0:8, 0:9])\nx[nl.arange(8)[:, None], nl.arange(9)[None, :]] = nisa.activation("
        "op=nl.exp, data=x, mask=nl.arange(6)[None, :] < 3)\nreturn a"
    ).notes
    assert note.message == "the index arrays of a mask must have the sizes of the operand"


def test_axes_of_one_position_are_no_dimensions_of_tiles():
    """As in AWS's root-mean-square example: the sum is along the columns, axis 1 of two."""
    body = """
    out = nl.ndarray((8, 4), dtype=nl.float32, buffer=nl.shared_hbm)
    p, one, f = nl.mgrid[0:8, 0:1, 0:4]
    row = nl.load(b.reshape((1, 4))[one, f])
    x = nl.load(a[p, f], mask=p < 6)
    y = x * nl.sum(x, axis=[1]) * row.broadcast_to((8, 4))
    nl.store(out[p, f], y, mask=p < 6)
    return out
    """
    row = np.arange(4, dtype=np.float32)
    golden = SQUARE * SQUARE.sum(1, keepdims=True) * row
    assert np.array_equal(run_migrated(body, SQUARE, row, parameters="a, b")[:6], golden[:6])


def test_a_grid_of_more_axes_than_a_tensor_has_dimensions_is_noted():
    (note,) = migrate_kernel("p, q, f = nl.mgrid[0:8, 0:2, 0:4]\nx = nl.load(a[p, f])\nreturn a").notes
    assert note.message.startswith("index arrays cannot have more axes than the tensor has dimensions")


@pytest.mark.parametrize("window", ["nl.ds(1, 2)", "slice(1, 3)", "nl.dslice(start=1, size=2)"])
def test_a_slice_that_a_name_has_is_no_number(window):
    body = (
        f"{OUT}x = nl.load(a)\nw = {window}\nx[:, w] = 0\nnl.store(out[:, w], x[:, w])\nnl.store(out[0:8, 3], x[:, 3])"
    )
    found = run_migrated(f"{body}\nnl.store(out[0:8, 0], x[:, 0])\nreturn out", SQUARE)
    golden = SQUARE.copy()
    golden[:, 1:3] = 0
    assert np.array_equal(found, golden)

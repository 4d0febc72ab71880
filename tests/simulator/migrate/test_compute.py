"""Migrated instructions that used to return tiles: they write NumPy's result to a tile of the right shape and dtype."""

import ml_dtypes
import numpy as np
import pytest
from migrated_kernels import computed_each, migrate_kernel, migrated_each, refused_each, run_migrated
from nki_tensors import normal

pytest.importorskip("libcst")
from trninfer.simulator.migrate import CHECK

A = normal(4, 6)
CUBE = normal(4, 2, 3)
LOADED = "x = nl.load(a)\nc = nisa.tensor_copy(x[:, 0:1])"


def scanned(a, b):
    """Compute state = a * state + b, from 0, along the columns."""
    states = [np.zeros(len(a), np.float32)]
    for j in range(a.shape[1]):
        states.append(a[:, j] * states[-1] + b[:, j])
    return np.stack(states[1:], 1)


def test_elementwise():
    cases = [
        ("nisa.tensor_scalar(x, np.subtract, 1.5)", A - 1.5),
        ("nisa.tensor_scalar(x, np.subtract, 1.5, reverse0=True)", 1.5 - A),
        ("nisa.tensor_scalar(x, op0=np.add, operand0=c, op1=np.multiply, operand1=2.0)", (A + A[:, :1]) * 2),
        ("nisa.tensor_tensor(x, x, np.multiply)", A * A),
        ("nisa.tensor_tensor(x, c, op=np.subtract)", A - A[:, :1]),
        ("nisa.tensor_tensor(c, x, np.subtract)", A[:, :1] - A),
        ("nisa.activation(np.square, x, scale=2.0)", 4 * A * A),
        ("nisa.activation(op=nl.copy, data=x, bias=c)", A + A[:, :1]),
        ("nisa.scalar_tensor_tensor(x, np.multiply, 3.0, np.add, x)", 4 * A),
        ("nisa.tensor_copy(nisa.tensor_scalar(x, np.add, 1.0))", A + 1),
        ("nisa.reciprocal(nisa.tensor_scalar(x, np.add, 9.0))", 1 / (A + 9)),
        ("nisa.tensor_tensor_scan(x, x, 0.0, np.multiply, np.add)", scanned(A, A)),
    ]
    found = computed_each([(call, expected.shape) for call, expected in cases], LOADED, A)
    for got, (call, expected) in zip(found, cases, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6, err_msg=call)


@pytest.mark.parametrize(
    "load",
    ["x = nl.ndarray((4, 2, 3), dtype=a.dtype)\nx[...] = nl.load(a)", "x = nl.load(a)\np, q, r = x.shape"],
    ids=["a shape that is written", "a shape that is not"],
)
def test_reductions_along_any_axes(load):
    cases = [
        ("nisa.tensor_reduce(np.max, x, axis=[1])", CUBE.max(1)),
        ("nisa.tensor_reduce(np.add, x, axis=2)", CUBE.sum(2)),
        ("nisa.tensor_reduce(np.add, x, axis=(-2, -1))", CUBE.sum((1, 2))[:, None]),
        ("nisa.tensor_reduce(np.min, x, axis=-1, negate=True)", -CUBE.min(2)),
    ]
    found = computed_each([(call, expected.shape) for call, expected in cases], load, CUBE)
    for got, (call, expected) in zip(found, cases, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, err_msg=call)


def test_a_mask_leaves_columns_out_of_a_reduction():
    lines = "n = a.shape[1]\nj = nl.arange(9)[None, :]\ni = nl.arange(4)[:, None]\n"
    lines += "x = nl.zeros((4, 9), dtype=a.dtype)\nx[i, j] = nl.load(a[i, j], mask=j < n)\n"
    (got,) = computed_each([("nisa.tensor_reduce(np.min, x[i, j], axis=[1], mask=j < n - 2)", (4, 1))], lines, A + 5)
    np.testing.assert_array_equal(got, (A + 5)[:, :4].min(1, keepdims=True))


def test_products_and_transposes():
    cases = [
        ("nisa.nc_matmul(x, x[:, 0:5])", A.T @ A[:, :5]),
        ("nisa.nc_transpose(x)", A.T),
        ("nisa.nc_transpose(nisa.nc_transpose(x))", A),  # the Tensor Engine cannot read PSUM
        ("nisa.nc_transpose(x, dtype=nl.bfloat16)", A.T.astype(ml_dtypes.bfloat16).astype(np.float32)),
    ]
    found = computed_each([(call, expected.shape) for call, expected in cases], "x = nl.load(a)", A)
    for got, (call, expected) in zip(found, cases, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, err_msg=call)


def test_products_and_transposes_are_in_psum_in_the_dtypes_of_the_tensor_engine():
    cases = ["y = nisa.nc_matmul(x, w)", "z = nisa.nc_transpose(x)", "z = nisa.nc_transpose(nisa.nc_transpose(x))"]
    tiles = "x = nl.ndarray((128, 64), dtype=nl.bfloat16)\nw = nl.ndarray((128, 32), dtype=nl.bfloat16)\n"
    product, transpose, again = migrated_each(cases, tiles)
    assert "y = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.psum)" in product
    assert "z = nl.ndarray((64, 128), dtype=nl.bfloat16, buffer=nl.psum)" in transpose
    assert "= nl.copy(z)\n" in again and "= nl.ndarray((128, 64), dtype=nl.bfloat16, buffer=nl.psum)" in again


def test_options_of_matmuls():
    options, turned, double = migrated_each(
        [
            "y = nisa.nc_matmul(x, x, is_stationary_onezero=False, is_moving_onezero=True, tile_position=())",
            "y = nisa.nc_matmul(x, x, is_transpose=True)",
            "y = nisa.nc_matmul(x, x, perf_mode='double_row_gen3')",
        ],
        "x = nl.ndarray((128, 64), dtype=nl.bfloat16)\n",
    )
    assert options.splitlines()[-1] == "nisa.nc_matmul(dst=y, stationary=x, moving=x, is_moving_onezero=True)"
    assert "dtype=nl.bfloat16, buffer=nl.psum" in turned and "is_transpose=True" in turned
    assert "perf_mode=nisa.matmul_perf_mode.double_row)" in double


ALLOCATED = {
    "nisa.bn_stats(x)": "(128, 6), dtype=nl.bfloat16",
    "nisa.bn_aggr(x)": "(128, 2), dtype=nl.bfloat16",
    "nisa.max8(src=x)": "(128, 8), dtype=nl.bfloat16",
    "nisa.nc_find_index8(data=x, vals=x[:, 0:8])": "(128, 8), dtype=nl.uint32",
    "nisa.tensor_partition_reduce(np.add, x)": "(1, 64), dtype=nl.bfloat16",
    "nisa.local_gather(x, i)": "(128, 16 * i.shape[1]), dtype=nl.bfloat16",
    "nisa.local_gather(x, i, 4, 32)": "(128, 32 * 4), dtype=nl.bfloat16",
    "nisa.dma_transpose(x)": "(64, 128), dtype=nl.bfloat16",
    "nisa.dma_transpose(q)": "(5, 4, 3, 2), dtype=nl.int8",
    "nisa.dropout(x, 0.5, dtype=nl.int8)": "(128, 64), dtype=nl.int8",
    "nisa.tensor_tensor(x, f, np.add)": "(128, 64), dtype=wider_dtype(nl.bfloat16, nl.float32)",
    "nisa.tensor_scalar(x, np.add, 1.0, engine=5)": "(128, 64), dtype=nl.bfloat16",
    "nisa.tensor_copy(x, engine=nisa.unknown_engine)": "(128, 64), dtype=nl.bfloat16",
}


def test_results_have_their_shape_and_dtype():
    tiles = "x = nl.ndarray((128, 64), dtype=nl.bfloat16)\nf = nl.ndarray((128, 64), dtype=nl.float32)\n"
    tiles += "i = nl.ndarray((128, 2), dtype=nl.uint16)\nq = nl.ndarray((2, 4, 3, 5), dtype=nl.int8)\n"
    found = migrated_each([f"y = {call}" for call in ALLOCATED], tiles)
    for lines, (call, allocated) in zip(found, ALLOCATED.items(), strict=True):
        assert lines.startswith(f"y = nl.ndarray({allocated}, buffer=nl.sbuf)\n"), call
    assert found[-2].endswith("operand0=1.0, engine=nisa.engine.vector)")
    assert found[-1].endswith("nisa.tensor_copy(dst=y, src=x)")


def test_copies_that_had_a_destination():
    before = "i = nl.arange(4)[:, None]\nj = nl.arange(6)[None, :]\nx = nl.zeros((4, 4), nl.float32, buffer=nl.psum)\n"
    cases = {
        "nisa.dma_copy(src=a[0], dst=a[1])": "nisa.dma_copy(dst=a[1], src=a[0])",
        "nisa.dma_copy(dst=a[i, j], src=a[i + 4, j], mask=i < n)": (
            "nisa.dma_copy(dst=a[0 : min(4, n), 0:6], src=a[4 : min(4, n) + 4, 0:6])"
        ),
        "nisa.dma_copy(dst=a[0], src=a[1], mask=n > 1)": "if n > 1:\n    nisa.dma_copy(dst=a[0], src=a[1])",
    }
    assert migrated_each(list(cases), before, "a, n") == list(cases.values())
    from_psum = migrate_kernel(before + "nisa.dma_copy(dst=a, src=x)")
    ((kind, message),) = {(note.kind, note.message) for note in from_psum.notes}
    assert (kind, message) == (CHECK, "a DMA cannot read PSUM: its source is copied to SBUF first")
    assert "nisa.dma_copy(dst=a, src=nl.copy(x))" in from_psum.text


def test_instructions_without_an_automatic_migration():
    cases = {
        "y = nisa.tensor_reduce(np.add, x)": "nisa.tensor_reduce without axis",
        "y = nisa.tensor_reduce(np.add, x, axis=n)": "the axis of nisa.tensor_reduce must be a number",
        "y = nisa.tensor_partition_reduce(np.add, [x])": "[x] is not known to be a tile here",
        "y = nisa.activation(np.exp)": "nisa.activation: data is not known to be a tile here",
        "y = nisa.dma_transpose(x, axes=n)": (
            "nisa.dma_transpose of a tensor whose shape is unknown here: allocate dst and pass it"
        ),
        "nisa.dma_copy(dst=a, src=x, dst_rmw_op=np.add)": (
            "nisa.dma_copy with dst_rmw_op: use nisa.dma_compute(dst, [src], reduce_op=...)"
        ),
        "y = nisa.tensor_copy_dynamic_src(x, 0)": (
            "nisa.tensor_copy_dynamic_src was removed: use nisa.tensor_copy with src=t.ap(..., scalar_offset=...)"
        ),
    }
    assert refused_each(list(cases), "x = nl.load(a)\n", "a, n") == list(cases.values())


def test_a_product_of_what_is_in_psum_copies_it_first():
    """As the first compiler did: students' kernels multiply by the result of nc_transpose."""
    body = """
        x = nl.load(a)
        turned = nisa.nc_transpose(x)
        out = nl.ndarray((4, 6), dtype=nl.float32, buffer=nl.shared_hbm)
        nl.store(out, nl.copy(nisa.nc_matmul(turned, nl.load(b))))
        return out
    """
    a, b = normal(4, 5), normal(5, 6)
    np.testing.assert_allclose(run_migrated(body, a, b, parameters="a, b"), a @ b, rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_a_transpose_into_psum_of_another_dtype(dtype):
    body = "out = nl.ndarray((8, 4), dtype=nl.float32, buffer=nl.shared_hbm)\n"
    body += "p = nl.ndarray((8, 4), dtype=nl.float32, buffer=nl.psum)\n"
    body += "p[...] = nisa.nc_transpose(nl.load(a[0:4, 0:8]))\nnl.store(out, nl.copy(p))\nreturn out"
    a = np.arange(32, dtype=dtype).reshape(4, 8)
    np.testing.assert_array_equal(run_migrated(body, a), a.T.astype(np.float32))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.int32])
def test_columns_of_other_dtypes_are_converted(dtype):
    column = np.arange(1, 5).astype(dtype)[:, None]
    cases = [
        ("nisa.tensor_scalar(x, np.add, c, op1=nl.multiply, operand1=c)", (A + column) * column),
        ("nisa.tensor_scalar(x, op0=np.multiply, operand0=nl.load(b))", A * column),
        ("nisa.activation(op=nl.copy, data=x, scale=c)", A * column),
    ]
    found = computed_each(
        [(call, A.shape) for call, _ in cases], "x = nl.load(a)\nc = nl.load(b)", A, column, parameters="a, b"
    )
    for got, (call, expected) in zip(found, cases, strict=True):
        np.testing.assert_allclose(got, expected.astype(np.float32), rtol=1e-5, atol=1e-6, err_msg=call)


def test_only_columns_of_other_dtypes_are_converted():
    cases = ["y = nisa.tensor_scalar(x, np.add, f)", "y = nisa.tensor_scalar(x, nl.bitwise_and, c)"]
    before = "x = nl.load(a)\nc = nl.load(b)\nf = nl.load(b, dtype=nl.float32)\n"
    found = migrated_each([*cases, "y = nisa.tensor_scalar(x, np.add, c)"], before, parameters="a, b")
    assert ["as_float32" in lines for lines in found] == [False, False, True]


def test_a_mask_of_a_loop_and_of_columns_on_a_new_tile():
    body = """
        out = nl.ndarray((4, 6), dtype=nl.float32, buffer=nl.shared_hbm)
        p, f = nl.mgrid[0:4, 0:6]
        x = nl.load(a[p, f])
        for i in nl.affine_range(2):
            y = nisa.tensor_scalar(data=x, op0=np.add, operand0=1.0, mask=(i < 1) & (i * 6 + f < 4))
            nl.store(out[p, f], x)
            nl.store(out[p, f], y, mask=(i < 1) & (f < 4))
        return out
    """
    np.testing.assert_array_equal(run_migrated(body, A[:4, :6]), A[:4, :6])

"""Uses of the NKI API in a function: names, calls, operators, and memories accessible to engines."""

import pytest
from linted_functions import HEAD, reported, scope_of
from trninfer.simulator.checking.lint import check_source
from trninfer.simulator.checking.lint.api import modern
from trninfer.simulator.checking.lint.calls import check_calls, check_outputs, takes_tiles

TILE = "t = nl.ndarray((128, 64), nl.float32)\np = nl.ndarray((128, 64), nl.float32, nl.psum)\n"
TILE += "c = nl.zeros((128, 1), nl.int32)\n"


def found(line):
    return [(rule, message) for _, rule, message in reported(check_calls, TILE + line)]


NO_OPERATORS = "tensors have no operators: use a function of nki.language or an instruction"
BROKEN = {
    "x = 2 * t[:, 0:1]": ("tensor-operator", f"2 * t[:, 0:1]: {NO_OPERATORS}"),
    "x = -t": ("tensor-operator", f"-t: {NO_OPERATORS}"),
    "n += t": ("tensor-operator", f"n += t: {NO_OPERATORS}"),
    "x = n <= t": ("tensor-operator", f"n <= t: {NO_OPERATORS}"),
    "x = nl.float31": ("unknown-name", "nki.language has no 'float31'; did you mean 'float32'?"),
    "x = t.shap": ("unknown-name", "a tensor has no 'shap'; did you mean 'shape'?"),
    "x = nisa.constants.oob_mode.skipped": ("unknown-name", "nki.isa.oob_mode has no 'skipped'"),
    "x: nl.nothing = nl.none": ("unknown-name", "nki.language has no 'none'"),
    "x = nl.mgrid[0:4]": (
        "old-dialect",
        "nki.language.mgrid was removed: index with slices, as in t[0:128, 0:64], or ",
    ),
    "for i in nl.dynamic_range(n):\n    pass": ("old-dialect", "nki.language.dynamic_range was removed: "),
    "for i in nl.affine_range(n):\n    pass": (
        "deprecated",
        "nki.language.affine_range is deprecated since NKI 0.7: use range",
    ),
    "nisa.tensor_copy(dst=t)": (
        "missing-argument",
        "nki.isa.tensor_copy requires 'src'; its parameters are (dst, src, engine, name)",
    ),
    "t.reshape(shape=(4, 4), order=1)": ("unknown-argument", "a tensor's reshape has no parameter 'order'"),
    "nisa.tensor_copy(t, t, mask=n)": (
        "old-dialect",
        "the argument mask of nki.isa.tensor_copy was removed: bound the slices with min(...) instead",
    ),
    "x = nl.zeros((4, 4), nl.int8, buffer='sbuf')": (
        "old-dialect",
        "memories are no longer specified by strings: use buffer=nl.sbuf",
    ),
    "nisa.dma_copy(t, a, dge_mode=2)": (
        "old-dialect",
        "integers no longer stand for nisa.dge_mode: use one of its members for dge_mode=2",
    ),
    "nisa.tensor_tensor(t, t, t, nl.add if n else nl.divide)": (
        "alu-operator",
        "nki.isa.tensor_tensor takes no op=nl.divide: allowed: abs_max, abs_min, add, ",
    ),
    "nisa.tensor_reduce(t, nl.max, t, 1)": ("alu-operator", "nki.isa.tensor_reduce takes no op=nl.max: use nl.maximum"),
    "nisa.tensor_tensor(t, t, t, np.multiply)": (
        "old-dialect",
        "op=numpy.multiply is not an operator of nki.language: use nl.multiply",
    ),
    "nisa.activation(t, nl.maximum, t)": (
        "activation-function",
        "nki.isa.activation takes no op=nl.maximum: allowed: abs, ",
    ),
    "x = nl.divide(t, t)": (
        "not-on-chip",
        "nki.language.divide works only in AWS's simulator: multiply by nl.reciprocal(y)",
    ),
    "nisa.memset(c[0:4], 1.0)": ("memset-value", "a memset of int32 takes an integer, got 1.0"),
    "nisa.dma_copy(a, p[0:8])": (
        "dma-reads-psum",
        "nki.isa.dma_copy cannot read p[0:8] in PSUM: copy it to SBUF first",
    ),
    "nisa.dma_compute(a, [t, p], reduce_op=nl.add)": (
        "dma-reads-psum",
        "nki.isa.dma_compute cannot read p in PSUM: copy it to SBUF first",
    ),
    "nl.store(a, value=p)": ("dma-reads-psum", "nki.language.store cannot read p in PSUM: copy it to SBUF first"),
    "nisa.nc_matmul(t, t, t)": (
        "matmul-output",
        "nki.isa.nc_matmul: dst t is in nl.sbuf: the Tensor Engine writes only to nl.psum; copy the result with "
        "nisa.tensor_copy",
    ),
    "s = nl.ndarray((33, 8), nl.float32)\nnisa.nc_transpose(s, t[0:8, 0:33])": (
        "matmul-output",
        "nki.isa.nc_transpose: dst s",
    ),
    "nisa.nc_transpose(t, t)": ("matmul-output", "nki.isa.nc_transpose: dst t is in nl.sbuf: the Tensor Engine "),
    "nisa.nc_transpose(t[0:8, 0:8], t, nisa.engine.tensor)": (
        "matmul-output",
        "nki.isa.nc_transpose: dst t[0:8, 0:8] is in",
    ),
    "nisa.tensor_copy(t, p, nisa.engine.gpsimd)": (
        "gpsimd-psum",
        "nki.isa.tensor_copy: src p is in PSUM, which GpSimd cannot access: copy it to SBUF first",
    ),
    "x = nl.rsqrt(p)": ("gpsimd-psum", "nki.language.rsqrt: x p is in PSUM, which GpSimd cannot access"),
    "nisa.tensor_scalar(t, p, nl.rsqrt, 0.0)": ("gpsimd-psum", "nki.isa.tensor_scalar: data p is in PSUM, which"),
    "nisa.iota(p, [[1, 64]], offset=0)": ("gpsimd-psum", "nki.isa.iota: dst p is in PSUM, which GpSimd cannot access"),
}


@pytest.mark.parametrize("line", BROKEN, ids=lambda line: line.splitlines()[0])
def test_wrong_calls_are_reported_with_a_remedy(line):
    rule, message = BROKEN[line]
    ((got, text),) = found(line)
    assert got == rule and text.startswith(message)


@pytest.mark.parametrize(
    "line",
    [
        "x = n * 2 + t.shape[0]\ny = t == None\nz = not t",
        "nisa.tensor_scalar(t, t, op0=nl.add, operand0=1.0, op1=nl.bypass, operand1=None)",
        "nisa.memset(c, 1)\nnisa.memset(t, 1.0)\nnisa.memset(c, value=n)",
        "nisa.nc_matmul(p, t, t)\nnisa.nc_transpose(p, t)\nnisa.nc_transpose(t, t, engine=nisa.engine.vector)",
        "s = nl.ndarray((32, 32), nl.float32)\nnisa.nc_transpose(s, t[0:32, 0:32])",
        "nisa.tensor_scalar(t, p, nl.rsqrt, 0.0, engine=nisa.engine.vector)\nnisa.tensor_copy(t, p)",
        "nisa.tensor_tensor(t, t, t, n)\nnisa.tensor_copy(t, t, engine=n, name='x')",
        "x = nl.tile_size.pmax + n.shap + a.shap",
        "nisa.dma_copy(dst=p, src=a)",
        "x: nl.nothing = 1",
    ],
)
def test_correct_calls_have_no_findings(line):
    assert found(line) == []


def test_names_of_later_and_earlier_versions():
    assert found("x = nl.tiles(a, tile_shape=(2, 3))") == []
    ((rule, message),) = found("for i in nl.dynamic_range(n):\n    pass")
    assert rule == "old-dialect" and message.startswith("nki.language.dynamic_range was removed: use nl.fori_loop")
    assert [rule for rule, _ in found("x = t @ t")] == ["tensor-operator"]


def test_defaults_of_parameters_are_looked_at():
    rules = [rule for _, rule, _ in reported(check_calls, "return a", parameters="a, n=nl.nothing, *, m=nl.none, k=1")]
    assert rules == ["unknown-name"] * 2


def test_names_by_which_the_api_lists_others():
    for dotted, listed in (
        ("neuronxcc.nki.isa.iota", "nki.isa.iota"),
        ("nki.isa.constants.engine", "nki.isa.engine"),
        ("neuronxcc.driver", "neuronxcc.driver"),
        ("numpy.add", "numpy.add"),
    ):
        assert modern(dotted) == listed


def outputs(body):
    return [(rule, message) for _, rule, message in reported(check_outputs, body)]


@pytest.mark.parametrize(
    ("body", "messages"),
    [
        ("return nl.zeros((4, 4), nl.int8)", ["the output nl.zeros((4, 4), nl.int8) is in nl.sbuf"]),
        ("o = nl.zeros((4, 4), nl.int8, nl.hbm)\nreturn a, o[0:2]", ["the output o[0:2] is in nl.hbm"]),
        ("t = nl.load(a)\nif n:\n    return [t, nl.exp(t)]\nreturn a", ["the output t is", "the output nl.exp(t) is"]),
        ("o = nl.zeros((4, 4), nl.int8, nl.shared_hbm)\nreturn o", []),
        ("def body(i):\n    return nl.load(a)\nnl.fori_loop(0, 4, body)\nreturn a", []),
        ("return n", []),
    ],
)  # fmt: skip
def test_outputs_are_in_shared_hbm(body, messages):
    assert [rule for rule, _ in outputs(body)] == ["output-buffer"] * len(messages)
    for (_, text), message in zip(sorted(outputs(body)), sorted(messages)):
        assert text.startswith(message) and text.endswith(": allocate it in nl.shared_hbm")


@pytest.mark.parametrize(
    ("write", "is_lost"),
    [
        ("nl.store(o, nl.load(a))", True),
        ("nl.store(a, nl.load(o))", False),
        ("nisa.dma_copy(dst=a[0:4], src=o)", False),
        ("nisa.dma_copy(o, a)", True),
        ("print(a)", True),
        ("return", True),
    ],
)
def test_writes_to_a_tensor_that_is_not_returned_are_reported(write, is_lost):
    made = "o = nl.zeros((4, 4), nl.int8, buffer=nl.shared_hbm)"
    expected = [("lost-output", f"{made}: the kernel returns nothing, so the values that it writes there are lost")]
    assert outputs(f"{made}\n{write}") == expected * is_lost


@pytest.mark.parametrize(
    ("line", "is_tile"),
    [
        ("nisa.tensor_copy(dst=x, src=a)", True),
        ("nisa.tensor_copy(x, a[0:4].reshape((2, 2)))", True),
        ("nisa.dma_copy(dst=x, src=a)", False),
        ("nisa.tensor_copy(x, nl.load(b))", False),
        ("other(a)", False),
    ],
)
def test_a_parameter_that_an_engine_gets_is_a_tile(line, is_tile):
    scope, _ = scope_of(f"{HEAD}def kernel(a):\n    {line}\n")
    assert takes_tiles(scope) is is_tile


def test_a_kernel_on_tiles_may_return_a_tile():
    """nki-library's subkernels are jitted and called from other files: their parameters are operands of engines."""
    body = "    t = nl.ndarray((128, 8), nl.float32)\n    nisa.tensor_copy(dst=t, src={source})\n    return t\n"
    for source in ("a", "a[:, 0:8]", "a.reshape((128, 8))[:, 0:8]"):
        assert check_source(HEAD + "@nki.jit\ndef part(a):\n" + body.format(source=source)) == []
    entry = HEAD + "@nki.jit\ndef kernel(a):\n" + body.format(source="nl.load(a)")
    assert [finding.rule for finding in check_source(entry)] == ["tile-output"]


def test_a_kernel_that_writes_to_its_argument_need_not_return_anything():
    body = "    a = nl.ndarray((8, 8), nl.float32, buffer=nl.shared_hbm)\n    {write}\n"
    for write in ("nisa.dma_copy(dst=out[0:8], src=a)", "nl.store(out, nl.load(a))"):
        assert check_source(HEAD + "@nki.jit\ndef kernel(out):\n" + body.format(write=write)) == []
    lost = HEAD + "@nki.jit\ndef kernel(x):\n" + body.format(write="nl.store(a, nl.load(x))")
    assert [finding.rule for finding in check_source(lost)] == ["lost-output"]


@pytest.mark.parametrize("shape", ["()", "(0, 4)", "(128, -1)"])
@pytest.mark.parametrize("buffer", ["nl.sbuf", "nl.psum", "nl.shared_hbm"])
def test_a_shape_without_elements(shape, buffer):
    made = f"nl.ndarray({shape}, dtype=nl.float32, buffer={buffer})"
    text = f"{HEAD}@nki.jit\ndef kernel(a):\n    t = {made}\n    return a\n"
    assert [finding.rule for finding in check_source(text) if "must consist of" in finding.message] == ["tile-size"]

"""The checker on kernels that each break one rule, and on valid ones."""

import ast
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trninfer.simulator.checking.lint import RULES, SourceError, check_source

HEADER = """\
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
"""
BODY = '''
@nki.jit
def kernel(a, n=4, mode="relu", table=None):
    """Doubles a."""
    tile = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    result = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=tile, src=a)
    nisa.activation(dst=tile, op=nl.copy, data=tile, scale=2.0)
{lines}
    nisa.dma_copy(dst=result, src=tile)
    return result
'''


# The tile in these lines is float32 [128, 512], whatever the instruction accepts.
OF_THE_TILE = frozenset({"operand-dtype", "operand-size"})


def findings_of(text: str, rule: str = "") -> list[tuple[int, str]]:
    found = [(finding.line, finding.rule) for finding in check_source(text)]
    return [each for each in found if each[1] == rule or each[1] not in OF_THE_TILE]


def marked(text: str, rule: str) -> list[tuple[int, str]]:
    """Return the lines that end in the mark `# <-` as findings of a rule."""
    return [(number, rule) for number, line in enumerate(text.splitlines(), 1) if line.endswith("# <-")]


# Lines inserted into a valid kernel. The line that breaks the rule ends in `# <-`.
BROKEN_LINES = [
    ("index-range", "print(tile[0:128, 512])  # <-"),
    ("access-pattern", "print(tile.ap([[512, 128], [1, 4]], scalar_offset=n, vector_offset=n))  # <-"),
    ("tensor-operator", "print(2 * tile[:, 0:1])  # <-"),
    ("tensor-operator", "n += nl.load(a)  # <-"),
    ("tensor-operator", "if tile[0, 0] > 0:  # <-\n    n = 1"),
    ("tensor-operator", "e = nl.exp(tile)\nn = e * 2.0  # <-"),
    ("tensor-operator", "e = nl.sum(nl.load(a), axis=1)\nn = 1 - e  # <-"),
    ("tensor-operator", "e = nl.zeros_like(tile)\nn = e / tile  # <-"),
    ("tensor-operator", "n = nl.where(tile, 1.0, tile) > 0  # <-"),
    ("tensor-operator", "n = -tile  # <-"),
    ("tensor-operator", "e = nl.exp(tile)\ne += 1.0  # <-"),
    ("tensor-operator", "u, v = nl.exp(tile), 2\nn = u + v  # <-"),
    ("tensor-operator", "e = nl.exp(tile) if a.shape[0] > 1 else nl.log(tile)\nn = e * 2  # <-"),
    ("tensor-operator", "e = nl.matmul(tile, tile)[:, 0:1]\nn += e  # <-"),
    ("unknown-name", "nisa.copy_tile(dst=tile, src=a)  # <-"),
    ("unknown-name", "n = nl.float31  # <-"),
    ("unknown-name", "n = nl.tile_size.pmx  # <-"),
    ("unknown-name", "nisa.tensor_copy(dst=tile, src=tile, engine=nisa.engine.vectr)  # <-"),
    ("unknown-name", "n = nki.kernels  # <-"),
    ("unknown-name", "n = tile.shap  # <-"),
    ("missing-argument", "nisa.tensor_copy(dst=tile)  # <-"),
    ("missing-argument", "tile.reshape()  # <-"),
    ("unknown-argument", "nisa.tensor_copy(dst=tile, src=tile, dtype=nl.float32)  # <-"),
    ("unknown-argument", "tile.reshape(shape=(128, 2, 256), order='C')  # <-"),
    ("duplicate-argument", "nisa.tensor_copy(tile, dst=tile, src=tile)  # <-"),
    ("too-many-arguments", "nisa.reciprocal(tile, tile, 'inverse', 1)  # <-"),
    ("alu-operator", "nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.divide)  # <-"),
    ("alu-operator", "nisa.tensor_scalar(tile, tile, nl.exp, 1.0)  # <-"),
    ("alu-operator", "nisa.tensor_reduce(dst=tile, op=nl.power, data=tile, axis=1)  # <-"),
    ("alu-operator", "nisa.tensor_reduce(dst=tile, op=nl.max, data=tile, axis=1)  # <-"),
    ("alu-operator", "nisa.tensor_tensor(tile, tile, tile, nl.add if n else nl.mod)  # <-"),
    ("alu-operator", "nisa.affine_select(tile, [[1, 8]], 1, tile, 0.0, cmp_op=nl.add)  # <-"),
    ("alu-operator", "nisa.tensor_tensor_scan(tile, tile, tile, 0.0, nl.square, nl.add)  # <-"),
    ("alu-operator", "nisa.select_reduce(tile, tile, tile, 0.0, reduce_op=nl.add)  # <-"),
    ("alu-operator", "nisa.tensor_partition_reduce(dst=tile[0:1], op=nl.minimum, data=tile)  # <-"),
    ("activation-function", "nisa.activation(dst=tile, op=nl.maximum, data=tile)  # <-"),
    ("activation-function", "nisa.activation(dst=tile, op=nl.prelu, data=tile)  # <-"),
    ("not-on-chip", "half = nl.divide(tile, tile)  # <-"),
    ("not-on-chip", "rest = nl.mod(tile, tile)  # <-"),
    ("memset-value", "c = nl.zeros((128, 1), nl.int32)\nnisa.memset(dst=c[:, 0:1], value=1.0)  # <-"),
    (
        "dma-reads-psum",
        "acc = nl.ndarray((128, 512), nl.float32, nl.psum)\nnisa.dma_copy(dst=result, src=acc[0:8])  # <-",
    ),
    (
        "dma-reads-psum",
        "acc = nl.ndarray((128, 8), nl.float32, buffer=nl.psum)\nview = acc.reshape((128, 2, 4))\n"
        "nisa.dma_compute(result, [tile, view], reduce_op=nl.add)  # <-",
    ),
    ("old-dialect", "i_p = nl.arange(128)[:, None]  # <-"),
    ("old-dialect", "i_p, i_f = nl.mgrid[0:128, 0:512]  # <-"),
    ("old-dialect", "old = nl.ndarray((4, nl.par_dim(128), 8), nl.float32)  # <-"),
    ("old-dialect", "nisa.tensor_copy_dynamic_src(tile, tile)  # <-"),
    ("old-dialect", "nisa.tensor_copy(dst=tile, src=tile, mask=n)  # <-"),
    ("old-dialect", "nisa.dma_copy(dst=tile, src=a, dst_rmw_op=nl.add)  # <-"),
    ("old-dialect", "nisa.dma_copy(dst=tile, src=a, dge_mode=2)  # <-"),
    ("old-dialect", "old = nl.ndarray((128, 8), nl.float32, buffer='sbuf')  # <-"),
    ("old-dialect", "nki.benchmark(kernel)  # <-"),
]

BROKEN_LINES += [
    ("tile-size", "t = nl.ndarray((256, 512), nl.float32)  # <-"),
    ("tile-size", "t = nl.zeros((nl.tile_size.pmax * 2, 4), dtype=nl.float32, buffer=nl.psum)  # <-"),
    ("tile-size", "t = nl.ndarray((128, 70000), nl.float32)  # <-"),
    ("tile-size", "t = nl.ndarray((128, 4, 1025), nl.float32, buffer=nl.psum)  # <-"),
    ("operand-memory", "out = nl.ndarray((4, 4), nl.float32, nl.shared_hbm)\nnl.exp(out)  # <-"),
    ("operand-memory", "o = nl.ndarray((4, 4), nl.float32, nl.hbm)\nnisa.activation(tile, nl.exp, tile, bias=o)  # <-"),
    (
        "operand-memory",
        "m = nl.ndarray((128, 512), nl.float32, buffer=nl.psum)\nd = nl.ndarray((128, 512), nl.float32, nl.psum)\n"
        "nisa.nc_matmul(dst=d, stationary=tile[:, 0:128], moving=m)  # <-",
    ),
    (
        "operand-size",
        "w = nl.ndarray((128, 1024), nl.bfloat16)\nd = nl.ndarray((128, 512), nl.float32, nl.psum)\n"
        "nisa.nc_matmul(dst=d, stationary=w[:, 0:128], moving=w)  # <-",
    ),
    ("operand-size", "w = nl.ndarray((128, 4), nl.float32)\nnisa.tensor_copy(dst=tile, src=w)  # <-"),
    ("operand-size", "w = nl.ndarray((64, 1), nl.float32)\nnisa.tensor_reduce(w, nl.add, tile, 1)  # <-"),
    ("operand-dtype", "nisa.tensor_copy_predicated(dst=tile, src=tile, predicate=tile)  # <-"),
    ("device-loop", "def body(i):\n    nisa.memset(dst=tile, value=0.0)\n\nnl.fori_loop(0, 4, body, step=0)  # <-"),
    ("device-loop", "def body(i):\n    return i  # <-\n\nnl.fori_loop(0, 4, body)"),
    ("device-loop", "nl.fori_loop(0, 4, lambda i: i + 1)  # <-"),
    ("device-condition", "n = float(tile)  # <-"),
    ("device-condition", "reg = nisa.register_alloc(4)\nwhile reg:  # <-\n    n = 1"),
    ("device-condition", "reg = nisa.register_alloc(4)\nif n and reg > 2:  # <-\n    n = 1"),
    ("device-condition", "i = nisa.scalar_load(tile[0:1, 0:1])\nn = 1 if i + 1 == 4 else 2  # <-"),
    ("device-condition", "i = nisa.scalar_load(tile[0:1, 0:1])\nfor k in range(2 * i):  # <-\n    n = k"),
    ("device-condition", "i = nisa.register_alloc()\nassert i  # <-"),
    ("device-condition", "i = nisa.register_alloc()\nn = int(i)  # <-"),
    ("device-condition", "def body(i):\n    if not i:  # <-\n        print(i)\n\nnl.fori_loop(0, n, body)"),
    ("device-condition", "if nl.greater(tile, 0.0):  # <-\n    n = 1"),
    ("deprecated", "for i in nl.affine_range(n):  # <-\n    n = i"),
    ("deprecated", "nested = kernel[2](a)  # <-"),
    ("gpsimd-psum", "acc = nl.ndarray((128, 8), nl.float32, nl.psum)\nroot = nl.rsqrt(acc)  # <-"),
    ("gpsimd-psum", "nisa.nonzero_with_count(tile, nl.matmul(tile, tile))  # <-"),
    ("gpsimd-psum", "nisa.tensor_copy(tile, nl.matmul(tile, tile), engine=nisa.engine.gpsimd)  # <-"),
    ("gpsimd-psum", "nisa.tensor_scalar(tile, nl.transpose(tile), nl.rsqrt, 0.0)  # <-"),
    ("gpsimd-psum", "acc = nl.zeros((128, 8), nl.float32, nl.psum)\nnisa.iota(acc, [[1, 8]], offset=0)  # <-"),
    ("matmul-output", "nisa.nc_matmul(dst=tile, stationary=tile[:, 0:128], moving=tile)  # <-"),
    ("matmul-output", "turned = nl.ndarray((128, 128), nl.float32)\nnisa.nc_transpose(turned, tile)  # <-"),
    ("matmul-output", "nisa.nc_transpose(tile[0:8, 0:8], tile[0:8, 0:8], nisa.engine.tensor)  # <-"),
    ("dma-reads-psum", "nl.store(result, nl.matmul(tile, tile))  # <-"),
    (
        "psum-slot",
        "acc = nl.ndarray((128, 8), nl.bfloat16, nl.psum)\nnisa.tensor_copy(tile[:, 0:2], acc[:, 1:3])  # <-",
    ),
    ("one-partition", "one = nl.ndarray((1, 8), nl.float32)\nn = one.reshape((1, 2, 4))  # <-"),
    ("transposed-rows", "turned = nl.ndarray((8, 6), nl.float32)\nnisa.dma_transpose(turned, a)  # <-"),
    ("unknown-name", "n = nl.dtypes  # <-"),
    ("unknown-name", "n = nisa.constants.oob_mode.skipped  # <-"),
    ("old-dialect", "nisa.register_move(n, n, imm=1)  # <-"),
    ("numpy-dtype", "n = nl.load(a, dtype=np.float32)  # <-"),
    ("numpy-dtype", "n = 1 if a.dtype == np.float32 else 2  # <-"),
    (
        "interleaved-sums",
        """\
acc = nl.ndarray((128, 4), dtype=nl.float32, buffer=nl.psum)
for k in range(n):
    for i in range(4):
        nisa.nc_matmul(dst=acc[:, i : i + 1], stationary=tile[:, 0:128], moving=tile, accumulate=k > 0)  # <-""",
    ),
    (
        "interleaved-sums",
        """\
acc = nl.ndarray((nl.tile_size.pmax, nl.tile_size.psum_fmax), dtype=nl.float32, buffer=nl.psum)
for k in range(n):
    first = k == 0
    for i in range(4):
        start = i * 128
        nisa.nc_matmul(dst=acc[:, start : start + 128], stationary=w, moving=tile, accumulate=not first)  # <-""",
    ),
    (
        "interleaved-sums",
        """\
acc = nl.ndarray((128, n), dtype=nl.float32, buffer=nl.psum)[0:64]
for k in range(n):
    for i in range(4):
        nisa.nc_matmul(acc[:, i], tile, tile, accumulate=(k > 0))  # <-""",
    ),
    ("psum-words", "acc = nl.ndarray((128, 3), dtype=nl.bfloat16, buffer=nl.psum)  # <-"),
    ("psum-words", "acc = nl.zeros((128, 3, 5), nl.float16, buffer=nl.psum)  # <-"),
    ("one-column", "e = nl.ndarray((128, 1), dtype=nl.bfloat16)  # <-"),
    ("one-column", "e = nl.zeros((n, 1, 1), dtype=nl.float16, buffer=nl.sbuf)  # <-"),
    (
        "one-column",
        """\
e = nl.ndarray((128, n), dtype=nl.bfloat16)
acc = nl.ndarray((1, 512), dtype=nl.float32, buffer=nl.psum)
nisa.nc_matmul(dst=acc, stationary=e[:, n : n + 1], moving=e)  # <-
nisa.nc_matmul(dst=acc, stationary=e[:, 3:4], moving=e)  # <-""",
    ),
    ("tensor-name", "for i in range(n):\n    e = nl.ndarray((128, 8), nl.float32, name='e')  # <-"),
    ("tensor-name", "nl.ndarray((128, 8), nl.float32, name='e')\nnl.ndarray((128, 4), nl.float32, name='e')  # <-"),
]

# Whole files, below the imports of HEADER.
BROKEN_FILES = [
    ("named-parameters", "@nki.jit\ndef kernel(a, *more):  # <-\n    return a\n"),
    ("named-parameters", "def kernel(a, **more):  # <-\n    return a\n\njitted = nki.jit(kernel)\n"),
    (
        "numpy-dtype",
        "@nki.jit\ndef kernel(a):\n    t = nl.zeros((8, 8), np.float32)  # <-\n    return a\n",
    ),
    ("global-state", "CALLS = []\n\n@nki.jit\ndef kernel(a):\n    CALLS.append(a.shape)  # <-\n    return a\n"),
    (
        "global-state",
        "SCALE = 1\n\ndef double():\n    global SCALE\n    SCALE = 2\n\n"
        "@nki.jit\ndef kernel(a):\n    print(SCALE)  # <-\n    return a\n",
    ),
    ("global-state", "N = 1\nN = 2\n\n@nki.jit\ndef kernel(a):\n    print(N)  # <-\n    return a\n"),
    ("tile-output", "@nki.jit\ndef kernel(a):\n    out = nl.ndarray(a.shape, a.dtype)\n    return out  # <-\n"),
    ("launch-grid", "@nki.jit\ndef kernel(a):\n    return a\n\n\nkernel[3](None)  # <-\n"),
    ("frozen-value", "import time\n\n@nki.jit\ndef kernel(a):\n    print(time.time())  # <-\n    return a\n"),
    (
        "frozen-value",
        "import os\nimport random\n\n@nki.jit\ndef kernel(a):\n    print(os.environ['N'])  # <-\n"
        "    print(random.random())  # <-\n    print(np.random.rand(3))  # <-\n"
        "    print(np.random.default_rng(0).normal(size=3))\n    return a\n",
    ),
    (
        "own-equality",
        "class Plan(nl.NKIObject):\n    size: int = 4\n\n@nki.jit\ndef kernel(a):\n    p = Plan()\n"
        "    print(p == Plan(5))  # <-\n    return a\n",
    ),
    (
        "output-buffer",
        "@nki.jit\ndef kernel(a):\n    out = nl.ndarray(a.shape, a.dtype, nl.hbm)\n    return out[0:8]  # <-\n",
    ),
    (
        "tile-output",
        "@nki.jit\ndef kernel(a):\n    out = nl.zeros(a.shape, a.dtype, buffer=nl.psum)\n"
        "    return a, out.reshape((8, 8))  # <-\n",
    ),
    ("tile-output", "@nki.jit\ndef kernel(a):\n    tile = nl.load(a)\n    return tile  # <-\n"),
    (
        "lost-output",
        "@nki.jit\ndef kernel(a):\n    out = nl.zeros(a.shape, a.dtype, buffer=nl.shared_hbm)  # <-\n"
        "    nisa.dma_copy(dst=out, src=a)\n",
    ),
    ("output-buffer", "@nki.jit\ndef kernel(a):\n    nisa.dma_copy(dst=a, src=a)\n    return 3  # <-\n"),
    ("output-buffer", "@nki.jit\ndef kernel(a):\n    return {'y': a}  # <-\n"),
    ("old-dialect", "import neuronxcc.nki.language as ncl  # <-\n\n@nki.jit\ndef kernel(a):\n    return a\n"),
    ("jit-option", "@nki.jit(compile_config='fast')  # <-\ndef kernel(a):\n    return a\n"),
    ("old-dialect", "@nki.jit(mode='trace')  # <-\ndef kernel(a):\n    return a\n"),
    ("old-dialect", "@nki.jit(platform_target='trn2')  # <-\ndef kernel(a):\n    return a\n"),
]


def kernel_with(lines: str) -> str:
    return HEADER + BODY.format(lines=textwrap.indent(lines, "    "))


def case_id(case: tuple[str, str]) -> str:
    return f"{case[0]}: {case[1].splitlines()[0][:40]}"


@pytest.mark.parametrize("case", BROKEN_LINES, ids=case_id)
def test_a_line_that_breaks_a_rule_is_its_only_finding(case):
    rule, lines = case
    text = kernel_with(lines)
    assert findings_of(text, rule) == marked(text, rule) != []


@pytest.mark.parametrize("case", BROKEN_FILES, ids=case_id)
def test_a_file_that_breaks_a_rule_has_it_as_its_only_finding(case):
    rule, text = case
    text = HEADER + text
    assert findings_of(text, rule) == marked(text, rule) != []


def test_every_rule_has_a_kernel_that_breaks_it():
    assert {rule for rule, _ in BROKEN_LINES + BROKEN_FILES} == set(RULES) - {
        "refused",
        "otherwise",
        "reused-tile",
        "uninitialised",
    }  # test_trial.py


CLEAN_LINES = [
    "",
    "for i in range(n):\n    if i % 2 == 0:\n        continue\n    break",
    "while n > 0:\n    n -= 1",
    "with nl.no_reorder():\n    nisa.memset(dst=tile, value=0.0)",
    "x, (y, z) = 1, (2, 3)",
    "sizes: list[int] = []\nsizes.append(n)",
    "options = {'a': 1}\nprint(options['a'], f'{n} {mode!r}')",
    "assert mode in ('relu', 'gelu') and n not in (0,), f'got {mode}'",
    "n = 1 if table is None else 2",
    "assert 0 < n < 8 and isinstance(n, int)",
    "nisa.tensor_scalar(tile, tile, op0=nl.add, operand0=1.0, op1=nl.bypass, operand1=None)",
    "nisa.tensor_reduce(dst=tile, op=nl.maximum if n else nl.add, data=tile, axis=1)",
    "nisa.memset(dst=nl.zeros((128, 8), dtype=nl.int32), value=1)",
    "nisa.iota(dst=tile, pattern=[[1, 512]], offset=0)",
    "tile = tile.reshape((128, 2, 256))[:, 0, :]",
    "view = tile.permute(dims=(1, 0)).view(nl.int32)",
    "def body(i):\n    nisa.memset(dst=tile, value=0.0)\n\nnl.fori_loop(0, n, body)",
    "acc = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)\nnisa.tensor_copy(dst=tile, src=acc)",
    "acc = tile\nif n:\n    acc = nl.zeros((128, 8), nl.float32, buffer=nl.psum)\nnisa.dma_copy(dst=result, src=acc)",
    "n = nl.tile_size.pmax + nl.tile_size.sbuf_fmax_bytes",
    "n = min([1, 2, 3]) + max(n, 2) + max(a.shape)",
    "sizes = [1]\nsizes.append(n)\nn = sizes.pop() + sizes.index(1)\nsizes.reverse()\nsizes.extend((1, 2))",
    "options = dict()\noptions['a'] = options.setdefault('b', 1)\nfor key in options.keys():\n    print(key)",
    "sizes = []\nif n:\n    sizes = table\nsizes.insert(0, n)  # what it is then is not told",
    "n = -n // 2 + -(-n // 2) + n % 3 - 2**n\nscale = 2.0**-n",
    "last = a.shape[-1] + a.shape[0 : -1 : 2][0]",
    "if nisa.get_nc_version() == nisa.nc_version.gen3:\n    n = 2",
    """\
acc = nl.ndarray((128, 4, 512), dtype=nl.float32, buffer=nl.psum)
some = nl.ndarray((128, n), dtype=nl.float32, buffer=nl.psum)
for k in range(n):
    own = nl.ndarray((128, 4), dtype=nl.float32, buffer=nl.psum)
    for i in range(4):  # a bank for each, or what may be one
        nisa.nc_matmul(dst=acc[:, i], stationary=tile[:, 0:128], moving=tile, accumulate=k > 0)
        nisa.nc_matmul(dst=acc[:, i, :], stationary=tile[:, 0:128], moving=tile, accumulate=k > 0)
        nisa.nc_matmul(dst=some[:, nl.ds(i * 512, 512)], stationary=tile[:, 0:128], moving=tile, accumulate=k > 0)
        nisa.nc_matmul(dst=own[:, i : i + 1], stationary=tile[:, 0:128], moving=tile, accumulate=i > 0)""",
    """\
acc = nl.ndarray((128, 4), dtype=nl.float32, buffer=nl.psum)
for i in range(4):  # one sum after the other
    for k in range(n):
        nisa.nc_matmul(dst=acc[:, i : i + 1], stationary=tile[:, 0:128], moving=tile, accumulate=k > 0)
nisa.nc_matmul(dst=acc[:, 0:1], stationary=tile[:, 0:128], moving=tile, accumulate=n > 0)""",
    "e = nl.ndarray((128, 3), dtype=nl.float32, buffer=nl.psum)\ne = nl.ndarray((128, 4), nl.bfloat16, buffer=nl.psum)",
    "e = nl.ndarray((128, 1), dtype=nl.float32)\ne = nl.ndarray((128, n), dtype=nl.bfloat16)\ne = nl.load(a)",
    "for i in range(n):\n    e = nl.ndarray((128, 8), nl.float32, name=f'e {i}')",
    "def body(i):\n    e = nl.ndarray((128, 8), nl.float32, name='e')\n\nnl.fori_loop(0, n, body)",
]


@pytest.mark.parametrize("lines", CLEAN_LINES)
def test_a_clean_kernel_has_no_findings(lines):
    assert check_source(kernel_with(lines)) == []


CLEAN_TRACED = [
    "sizes = [i * 2 for i, _ in enumerate(a.shape) if i]",
    "def part(i, *, size=4):\n    nisa.memset(dst=tile[:, nl.ds(i * size, size)], value=float(n))\n\npart(0)",
    "try:\n    n = {1: 2}[n]\nexcept KeyError:\n    raise ValueError(f'{n:>4}') from None",
    "import math\nfor i, size in zip(range(n), sorted(a.shape, key=lambda s: -s)):\n    n = math.prod((i, size))",
    "n = sum(x for x in reversed(a.shape)) if (m := len(a.shape)) > 1 else 7 // -2",
    "sizes = {*a.shape}\nprint(*sizes, **{'end': ''})\nn = 'relu'.upper() is mode",
    "tile = [tile for _ in range(2)][0]\ntile + 1  # what a list holds is not told",
    "t = nl.exp(tile)\nsizes = [t + 1 for t in range(3)]",
    "reg = nisa.register_alloc(4)\nnl.fori_loop(0, reg, lambda i: nisa.memset(dst=tile, value=0.0))",
    "reg = None\nif reg is None:\n    reg = nisa.register_alloc(4)",
    "assert nl.equal(tile, tile)",
    "c = nl.zeros((32, 32), nl.float32)\nnisa.nc_transpose(dst=c, data=tile[0:32, 0:32])",
    "n = nisa.constants.oob_mode.skip",
    "from nki.isa.constants import dge_mode as modes\nimport nki.language as own\nn = modes.none, own.float32",
]


@pytest.mark.parametrize("lines", CLEAN_TRACED)
def test_any_python_is_clean(lines):
    assert check_source(kernel_with(lines)) == []


def test_a_finding_reads_path_line_rule_message():
    (finding,) = check_source(kernel_with("n = nl.nothing"), "some/kernel.py")
    assert str(finding) == "some/kernel.py:13: unknown-name: nki.language has no 'nothing'"


STATEMENTS = st.sampled_from([lines for _, lines in BROKEN_LINES] + CLEAN_LINES)


@given(st.lists(STATEMENTS, max_size=4))
def test_any_mixture_is_checked_without_an_error(parts):
    text = kernel_with("\n".join(parts))
    ast.parse(text)
    for finding in check_source(text):
        assert finding.rule in RULES
        assert 1 <= finding.line <= len(text.splitlines())


@given(st.text(max_size=200))
def test_any_text_is_checked_or_refused_in_one_line(text):
    try:
        assert check_source(text) == []
    except SourceError as error:
        assert "\n" not in str(error)

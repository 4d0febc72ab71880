"""The Python that the compiler up to 0.6 accepts: what it refuses, and what to write instead."""

import sys

import pytest
from linted_functions import HEAD, reported, scope_of
from trninfer.simulator.checking.lint.subset import check_subset

BEFORE = "import functools, math\n\nCOUNT = 0\nCOUNT = 1\n\n"


def found(body, version="0.6"):
    return reported(lambda scope: check_subset(scope, True), body, version, BEFORE)


BROKEN = {
    "raise ValueError(n)": "unsupported-statement: no `raise`: use assert",
    "try:\n    n = 1\nfinally:\n    n = 2": "unsupported-statement: no `try`: nothing can be caught in a kernel",
    "from math import ceil": "unsupported-statement: no `import`: move it out of the function",
    "del n": "unsupported-statement: no `del`",
    "class Inner:\n    n = lambda: 1": "unsupported-statement: no `class`: move it out of the function",
    "x = lambda: [k for k in a]": "unsupported-expression: no `lambda`: write a function at module level",
    "x = {k for k in a}": "unsupported-expression: no a set comprehension: append to a list in a for loop",
    "if (m := n) > 2:\n    n = m": "unsupported-expression: no `:=`: assign first",
    "yield n": "unsupported-expression: no `yield`: return a list",
    "a @= n": "unsupported-expression: no `@`: use nisa.nc_matmul or nl.matmul",
    "x = a @ n": "unsupported-expression: no `@`: use nisa.nc_matmul or nl.matmul",
    "x = (1, *a.shape)": "unsupported-expression: no *a.shape: it expands no tuples",
    "print(*a)": "unsupported-expression: no *a: it expands no tuples",
    "print(**a)": "unsupported-expression: no **a in a call",
    "x = 2j": "unsupported-constant: has no complex values",
    "x = b'n'": "unsupported-constant: has no bytes values",
    "x = 2147483648": "unsupported-constant: 2147483648 is beyond the compiler's 32-bit integers",
    "def double(x):\n    return x": "nested-function: no the nested function 'double': move it to module level",
    "for i in a:\n    pass\nelse:\n    n = 2": "loop-else: no `else` after a loop",
    "while n:\n    n = 0\nelse:\n    n = 2": "loop-else: no `else` after a loop",
    "for i, j in a:\n    pass": "loop-target: takes one name after `for`, got (i, j): unpack it in the body",
    "n, (a.x, m) = 1, (2, 3)": "assign-target: unpacks into names, got a.x: assign it by itself",
    "with a, n:\n    pass": ("with-block: takes one call without arguments and without `as`: `with nl.no_reorder():`"),
    "with nl.no_reorder() as m:\n    pass": (
        "with-block: takes one call without arguments and without `as`: `with nl.no_reorder():`"
    ),
    "with nl.no_reorder(n):\n    pass": (
        "with-block: takes one call without arguments and without `as`: `with nl.no_reorder():`"
    ),
    "with nl.zeros():\n    pass": "with-block: has no block nl.zeros(), only nl.no_reorder()",
    "x = {n: 1}": "dict-key: takes string literals as keys, got n",
    "x = {**a}": "dict-key: takes string literals as keys, got **a",
    "d = {'a': 1}\nx = 'a' not in d": (
        "dict-membership: 'a' not in d: takes `in` a string, list or tuple: use .get, or a list of keys"
    ),
    "x = f'{n:>4}'": "format-spec: no the format specification in {n:...}",
    "x = n is a": "identity-comparison: no `is` but with None: use ==",
    "x = n is not True": "identity-comparison: no `is not` but with None: use !=",
    "x = n in a in a": "membership-chain: no `in` in a chained comparison: join two with `and`",
    "x = sorted(a) + sorted(a)": "builtin: has no builtin 'sorted'",
    "x = math.prod(a)": "host-call: math.prod runs on the host only: call it outside and pass its result",
    "x = np.prod(a)": "host-call: numpy.prod runs on the host only: call it outside and pass its result",
    "x = nl.zeros(a, np.int16)": "numpy-dtype: no numpy.int16: use nl.int16",
    "x = nl.zeros(a, np.int64)": "numpy-dtype: no numpy.int64: use a dtype of nki.language",
    "x = COUNT + COUNT": "global-state: the global 'COUNT' changes, in line 9: pass it as an argument",
}


@pytest.mark.parametrize("line", BROKEN, ids=lambda line: line.splitlines()[0])
def test_what_is_refused(line):
    (one,) = found("n = 1\n" + line)
    message = one[2].replace("the NKI compiler does not take ", "no ").replace("the NKI compiler ", "")
    assert f"{one[1]}: {message}" == BROKEN[line]
    later = [rule for _, rule, _ in found(line, "0.7")]
    assert set(later) <= {"numpy-dtype", "global-state"}  # what tracing runs is any Python


@pytest.mark.parametrize(
    "body",
    [
        "x = 2147483647\ny = -x\nz = x if n is None else y",
        "for i in range(n):\n    if i == 2:\n        continue\n    a[i] += n",
        "while n > 0 and a not in (1, 2):\n    n -= 1",
        "with nl.no_reorder():\n    pass",
        "x, (y, z) = 1, (2, 3)\nw: np.float32 = [x, f'{y}{z!r}', 'x' in 'xy', {'a': 1}['a']]",
        "x = math.ceil(a) + math.log2(n) + min(a) + len(a)",
        "def body(i):\n    print(i)\nnl.fori_loop(0, n, body)",
        "def go(r):\n    return r\nnl.while_loop(n, body=go)",
        "assert isinstance(n, int), 'n'\nprint(a, n, end='')",
    ],
)
def test_what_is_accepted(body):
    assert found(body) == []


def test_a_block_that_is_refused_is_looked_into():
    body = "try:\n    raise n\nexcept ValueError:\n    del n\nmatch n:\n    case 1:\n        yield n"
    assert [(line, rule) for line, rule, _ in found(body)] == [
        (1, "unsupported-statement"),
        (2, "unsupported-statement"),
        (4, "unsupported-statement"),
        (5, "unsupported-statement"),
        (7, "unsupported-expression"),
    ]


@pytest.mark.parametrize(
    ("head", "entry", "rule", "message"),
    [
        ("def kernel(a, *rest):", True, "signature", "the NKI compiler does not take *rest"),
        ("def kernel(a, *, n=1):", True, "signature", "the bare `*`: move parameters with defaults to the end"),
        ("def kernel(**options):", False, "signature", "the NKI compiler does not take **options"),
        ("def kernel(a=[1]):", True, "signature", "an argument of a kernel cannot be [1]: use a tuple"),
        ("def kernel(a=[1]):", False, "", ""),
        ("def kernel(a=lambda: 1):", False, "unsupported-expression", "`lambda`"),
        ("async def kernel(a):", True, "unsupported-statement", "the NKI compiler does not take `async`"),
        ("@functools.cache\ndef kernel(a):", False, "decorator", "@functools.cache on a function that it inlines"),
        ("@functools.cache\ndef kernel(a):", True, "", ""),  # of a kernel the decorators are looked at elsewhere
        ("@nki.jit(debug=1)\ndef kernel(a):", False, "", ""),
        ("@staticmethod\ndef kernel(a):", False, "", ""),
    ],
)
def test_signatures_and_decorators(head, entry, rule, message):
    scope, findings = scope_of(f"{HEAD}{BEFORE}{head}\n    return a\n", "0.6")
    check_subset(scope, entry)
    assert [finding.rule for finding in findings] == ([rule] if rule else [])
    assert all(message in finding.message for finding in findings)


def test_what_belongs_to_a_function_around():
    text = HEAD + (
        "def make(scale):\n    import math\n    def half(x):\n        return x\n"
        "    def kernel(a):\n        return half(a) + scale + scale + math.ceil(2)\n    return kernel\n"
    )
    scope, findings = scope_of(text, "0.6")
    check_subset(scope, True)
    why = "belongs to the function around this one"
    assert sorted(finding.message for finding in findings if finding.rule == "closure") == [
        f"'half' {why}: pass it as an argument",
        f"'math' {why}: import it at the top of the module",
        f"'scale' {why}: pass it as an argument",
    ]


def test_exception_groups():
    keyword = "except*" if sys.version_info >= (3, 11) else "except"
    (one,) = found(f"try:\n    n = 1\n{keyword} ValueError:\n    n = 2")
    assert one == (
        1,
        "unsupported-statement",
        "the NKI compiler does not take `try`: nothing can be caught in a kernel",
    )

"""Tracing Python: device values in control flow, iterators that are read once, dtypes and equality."""

import pytest
from linted_functions import reported
from trninfer.simulator.checking.lint.checker import check_source
from trninfer.simulator.checking.lint.tracing import check_parameters, check_tracing

BEFORE = (
    "import enum, os, random, time\nfrom dataclasses import dataclass\n\n"
    "class Plain(nl.NKIObject):\n    size: int = 4\n\n"
    "@dataclass\nclass Data:\n    size: int = 4\n\n"
    "class Equal:\n    def __eq__(self, other):\n        return True\n\n"
    "class Kind(enum.Enum):\n    one = 1\n\n"
    "COUNT = 0\nCOUNT = 1\nLIMIT = 4\n\n"
    "@nki.jit\ndef other(a):\n    return a\n\n"
)
DEVICE = "r = nisa.register_alloc(4)\ns = nisa.scalar_load(a)\nt = nl.load(a)\n"


def found(line, before=DEVICE):
    return reported(check_tracing, before + line, before=BEFORE)


@pytest.mark.parametrize(
    ("line", "condition", "value", "instead"),
    [
        ("if r:\n    n = 1", "if r", "a register", ""),
        ("if n and r > 2:\n    n = 1", "if r > 2", "a register", ""),
        ("if not n:\n    n = 1\nelif s + 1 == n:\n    n = 2", "if s + 1 == n", "a scalar of the device", ""),
        ("while r:\n    n = 1", "while r", "a register", "; nl.while_loop runs on the device"),
        ("x = 1 if t else 2", "if t", "a tensor", "; nl.where selects on the device"),
        ("x = [k for k in n if r]", "if r", "a register", ""),
        ("assert s", "assert s", "a scalar of the device", ""),
        ("x = r or n", "or r", "a register", ""),
        ("x = not t", "not t", "a tensor", "; nl.where selects on the device"),
    ],
)
def test_conditions_on_values_of_the_device(line, condition, value, instead):
    ((_, rule, message),) = found(line)
    assert rule == "device-condition"
    assert message == f"`{condition}`: {value} has no value while the kernel is traced{instead}"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("x = int(r)", "int(r): a register has no value while the kernel is traced"),
        ("x = bool(2 * s)", "bool(2 * s): a scalar of the device has no value while the kernel is traced"),
        (
            "for k in range(0, s):\n    n = k",
            "range(0, s): a scalar of the device has no value while the kernel is traced; "
            "nl.fori_loop runs on the device",
        ),
    ],
)
def test_conversions_of_values_of_the_device(line, message):
    assert [(rule, text) for _, rule, text in found(line)] == [("device-condition", message)]


@pytest.mark.parametrize(
    "line",
    [
        "if r is None or n in (1, r):\n    n = 1",
        "assert nl.equal(t, t)",
        "x = n or r",
        "if n > 2 and not n:\n    n = 1",
        "def body(i):\n    return int(n)\nnl.fori_loop(0, r, body)",
        "x = float(n) + range(n)[0]",
        "if t.shape[0] > 2:\n    n = 1",
    ],
)
def test_conditions_on_values_that_are_known(line):
    assert found(line) == []


def test_values_read_while_tracing():
    lines = {
        "x = time.time()": "time.time",
        "x = random.random()": "random.random",
        "x = os.environ['N']": "os.environ",
        "x = os.environ.get('N')": "os.environ.get",
        "x = os.getenv('N')": "os.getenv",
        "x = np.random.rand(3)": "numpy.random.rand",
        "x = np.random.default_rng()": "numpy.random.default_rng",
    }
    why = "is read once, while tracing, and compiled into the kernel: pass the value as an argument"
    assert found("\n".join(lines), "") == [
        (number, "frozen-value", f"{name} {why}") for number, name in enumerate(lines.values(), 1)
    ]
    assert found("x = np.random.default_rng(0).normal()\ny = random.Random(x=1)\nz = os.path.join('a', 'b')", "") == []


def test_dtypes_of_numpy():
    lines = [
        "x = nl.load(a, dtype=np.float32)",
        "x = nl.zeros((4, 4), np.float64)",
        "x = a.dtype == np.int8",
        "x = np.zeros(3, np.float32)",
        "x = a.dtype is np.int8",
    ]
    assert found("\n".join(lines), "") == [
        (1, "numpy-dtype", "numpy.float32 is not a dtype of NKI: use nl.float32"),
        (2, "numpy-dtype", "numpy.float64 is not a dtype of NKI: use a dtype of nki.language"),
        (3, "numpy-dtype", "numpy.int8 is not a dtype of NKI: use nl.int8"),
    ]


def test_objects_that_are_compared_by_identity():
    lines = [
        "p, q = 1, 2",
        "o = Plain()",
        "x = o == n",
        "x = n != Plain(5)",
        "x = Data() == Data()",
        "x = Equal() == Equal()",
        "x = Kind(1) == Kind(1)",
        "x = o is n",
    ]
    why = "Plain has no __eq__, so objects are compared by identity; NKI 0.6 compared their fields: make it a dataclass"
    assert found("\n".join(lines), "") == [
        (3, "own-equality", f"o == n: {why}"),
        (4, "own-equality", f"n != Plain(5): {why}"),
    ]
    assert found("o = Plain()\no = n\nx = o == n", "") == []  # it may be either


def test_globals_that_change_and_grids_in_brackets():
    lines = ["x = COUNT + LIMIT", "y = COUNT", "z = other[2](a)", "w = n[2](a)"]
    assert found("\n".join(lines), "") == [
        (1, "global-state", "the global variable 'COUNT' changes in line 24: pass it as an argument"),
        (
            3,
            "deprecated",
            "launch grids in brackets are deprecated: set the number of cores with NEURON_LOGICAL_NC_CONFIG",
        ),
    ]


@pytest.mark.parametrize(
    ("parameters", "starred"),
    [
        ("a, *more", ["*more"]),
        ("a, *more, n, **rest", ["**rest", "*more"]),
        ("a, more0=None, *, n", []),
        ("a, /, n", []),
    ],
)
def test_a_kernel_has_named_parameters(parameters, starred):
    findings = reported(check_parameters, "return a", parameters=parameters)
    assert [rule for _, rule, _ in findings] == ["named-parameters"] * len(starred)
    for (_, _, message), mark in zip(findings, starred):
        name = mark.lstrip("*")
        assert message == (
            f"TorchNeuron binds arguments by name and cannot pass {mark}: use {name}0=None, {name}1=None, ... instead"
        )


def test_a_kernel_that_another_one_calls_may_have_any_parameters():
    text = (
        "import nki\n\n@nki.jit\ndef inner(*tiles):\n    return tiles[0]\n\n"
        "@nki.jit\ndef outer(a):\n    return inner(a, a)\n"
    )
    assert [f.rule for f in check_source(text)] == []
    assert [f.rule for f in check_source(text.partition("@nki.jit\ndef outer")[0])] == ["named-parameters"]

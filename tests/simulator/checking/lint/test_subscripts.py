import numpy as np
import pytest
from linted_functions import HEAD
from trninfer import simulator
from trninfer.simulator.checking.lint import check_source

simulator.install()

LINES = [
    # statement, part of the message ("" if it is valid)
    ("t[128:129, 0:4]", "128:129 of dimension 0 must lie in 0:128"),
    ("t[0:64, 0:65]", "0:65 of dimension 1 must lie in 0:64"),
    ("t[0:64, 32:16]", "32:16 of dimension 1"),
    ("t[0:64, :-65]", "0:-1 of dimension 1"),
    ("t[128]", "index 128 of dimension 0 is out of bounds; it must be 0 to 127"),
    ("t[0, 64]", "index 64 of dimension 1"),
    ("t[0, -65]", "index -65 of dimension 1"),
    ("t[0:8, 0:8, 0]", "3 indices for 2 dimensions"),
    ("t[0:64][64]", "index 64 of dimension 0"),
    ("t[0:64, 0:32][:, 32]", "index 32 of dimension 1"),
    ("t[..., 64]", "index 64 of dimension 1"),
    ("t[0:W, 0:2 * W]", ""),
    ("t[0:W, 0 : 2 * W + 1]", "0:65 of dimension 1"),
    ("h[200]", ""),
    ("h[300, 0:4]", "index 300 of dimension 0"),
    ("h[0:256, 3, 1]", ""),
    ("h[0:256, 4, 1]", "index 4 of dimension 1"),
    ("t[0:128:2, 0:4]", "partitions cannot be sliced with a step, got 2"),
    ("t[0:128:1, 0:4]", ""),
    ("h[0:256:2, 0:4]", ""),
    ("t[-1, -64]", ""),
    ("t[-128:, -64:-1]", ""),
    ("t[..., 63]", ""),
    ("t[0:64, 0:64:2]", ""),
    ("t[0:64, 0:64:2][:, 32]", "index 32 of dimension 1"),
    ("t[0:64, 0:63:2][:, 31]", ""),
    ("t[5][0, 63]", ""),
    ("t[5][1]", "index 1 of dimension 0"),
    ("t[0:128, 5][0, 0]", ""),
    ("t[0:128, 5][0, 1]", "index 1 of dimension 1"),
]


def kernel(line: str) -> str:
    return (
        f"{HEAD}W = 32\n\n@nki.jit\ndef kernel(a):\n"
        "    t = nl.zeros((128, 64), dtype=nl.float32)\n"
        "    h = nl.ndarray((256, 4, 2), dtype=nl.float32, buffer=nl.shared_hbm)\n"
        f"    {line}\n    return a\n"
    )


@pytest.mark.parametrize(("line", "message"), LINES)
def test_an_index_is_checked_as_the_simulator_does(line, message):
    findings = [each for each in check_source(kernel(line)) if each.rule == "index-range"]
    assert [message in each.message for each in findings] == [True] * bool(message)
    space = {}
    exec(kernel(line), space)
    if message:
        with pytest.raises(Exception, match=r"bounds|must lie in|indices|with a step"):
            simulator.run(space["kernel"], np.zeros((1, 1), np.float32))
    else:
        simulator.run(space["kernel"], np.zeros((1, 1), np.float32))


@pytest.mark.parametrize(
    "line",
    [
        "n = 128\n    n -= 64\n    t[0:n, 0:1]\n    t[0:64][0 : n]",
        "if W > 64:\n        t[0:8, W : W + 64]",
        "x = t[0:8, W : W + 64] if W > 64 else t",
        "for i in range(4):\n        t[0:8, 0:8][i + 4 - i]",
        "for i in range(W // 128):\n        t[0:8, 64:128]",
        "for i in nl.affine_range(1, W - 31):\n        t[0:8, 64:128]",
        "while W > 64:\n        t[0:8, 64:128]",
        "W > 64 and t[0:8, 64:128]",
        "match W:\n        case 64:\n            t[0:8, 64:128]",
        "if W <= 64:\n        return a\n    t[0:8, 64:128]",
        "for i in range(4):\n        if W <= 64:\n            continue\n        t[0:8, 64:128]",
        "for i in range(4):\n        if W <= 64:\n            return a\n    t[0:8, 64:128]",
        "t[0:8][nl.ds(0, 8)]",
        "t[(0, 1)[0], 0]",
        "[1, 2][5 - 4]",
        "a[500, 500]",
    ],
)
def test_no_finding_if_a_value_is_unknown_or_a_branch_may_not_run(line):
    assert not [each for each in check_source(kernel(line)) if each.rule == "index-range"]


@pytest.mark.parametrize(
    "line",
    [
        "for i in range(W // 16):\n        t[0:8, 64:128]",
        "for i in range(a.shape[0]):\n        t[0:8, 64:128]",
        "for i in range(4):\n        if i:\n            break\n    t[0:8, 64:128]",
        "if W > 64:\n        raise ValueError\n    t[0:8, 64:128]",
        "def body(i):\n        t[0:8, 64:128]\n    nl.fori_loop(0, 4, body)",
        "def body(i):\n        return i\n    t[0:8, 64:128]",
    ],
)
def test_findings_in_loops_and_after_guards(line):
    assert [each.rule for each in check_source(kernel(line))].count("index-range") == 1


@pytest.mark.parametrize(
    ("call", "rules"),
    [
        ("t.ap([[64, 128], [1, 64]], scalar_offset=r, vector_offset=t)", ["access-pattern"]),
        ("t.ap([[64, 128], [1, 64]], scalar_offset=r)", []),
        ("t.ap([[64, 128], [1, 64]], vector_offset=t)", []),
    ],
)
def test_an_access_pattern_has_one_offset(call, rules):
    text = kernel(f"r = nisa.register_alloc(0)\n    {call}")
    assert [each.rule for each in check_source(text)] == rules


@pytest.mark.parametrize(
    ("options", "is_wrong"),
    [
        ("compile_config='fast'", True),
        ("compile_config={'lnc': 1}", True),
        ("compile_config=nki.compiler.SpecializationConfig()", True),
        ("compile_config=nki.compiler.CompileConfig", True),
        ("specialization_config=3", True),
        ("compile_config=None", False),
        ("compile_config=nki.compiler.CompileConfig()", False),
        ("compile_config=made", False),
        ("specialization_config=nki.compiler.SpecializationConfig()", False),
    ],
)
def test_the_type_of_a_configuration(options, is_wrong):
    text = f"{HEAD}import nki.compiler\n\nmade = object\n\n@nki.jit({options})\ndef kernel(a):\n    return a\n"
    assert [each.rule for each in check_source(text)] == ["jit-option"] * is_wrong

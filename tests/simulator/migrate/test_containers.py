"""Arithmetic on tiles in lists and dictionaries, in unpacking, and in match statements."""

import numpy as np
import pytest
from migrated_kernels import FIRST, computed_each, refused_each, run_migrated
from nki_tensors import normal

pytest.importorskip("libcst")

A = normal(4, 6)
LIST = "ts = [x, x * 2.0]\n"
GROWN = "ts = []\nfor k in range(2):\n    ts.append(x * 1.0)\n"
NAMED = 'ts = {}\nfor k in range(2):\n    ts["t", k] = x * 1.0\n'
LOOPS = [
    (LIST + "y = ts[1] * 2.0", 4 * A),
    (LIST + "for t in ts:\n    y = t * 3.0", 6 * A),
    (LIST + "for t in reversed(ts):\n    y = t * 3.0", 3 * A),
    (LIST + "for k, t in enumerate(ts):\n    y = t * (k + 1.0)", 4 * A),
    (LIST + "for t, s in zip(ts, [3.0, 4.0]):\n    y = t * s", 8 * A),
    (LIST + "for t, u in zip(ts, ts):\n    y = t + u", 4 * A),
    ("ts = [x * 2.0 for k in range(2)]\nfor t in ts:\n    y = t + x", 3 * A),
    (GROWN + "y = ts[0] + ts[1]", 2 * A),
    (GROWN + "for t in ts:\n    y = t * 2.0", 2 * A),
    (NAMED + 'y = ts["t", 0] + ts["t", 1]', 2 * A),
    (NAMED + "for (name, k), t in ts.items():\n    y = t * 2.0", 2 * A),
    (NAMED + "for t in ts.values():\n    y = t - x * 2.0", -A),
    ("t, u = nl.load(a), nl.load(a)\ny = t + u", 2 * A),
    ("t = u = nl.load(a)\ny = t + u", 2 * A),
    ("ns = [2, 3]\nfor k in ns:\n    y = x * (k * 2.0)", 6 * A),
    ("y = x\nfor k in [0, 1]:\n    y = y * (ns[k] * 1.0)".replace("y = x\n", "y = x * 1.0\nns = (2, 3)\n"), 6 * A),
]
MATCH = """\
mode = "two"
match mode:
    case "two":
        y = x * 2.0
    case _:
        y = x * 3.0
"""


def values(cases):
    return computed_each([(lines, A.shape) for lines, _ in cases], "x = nl.load(a)", A)


def test_values_of_tiles_in_containers():
    for (lines, expected), found in zip(LOOPS, values(LOOPS)):
        np.testing.assert_allclose(found, expected, rtol=1e-6, err_msg=lines)


def test_match_statements():
    cases = [(MATCH, 2 * A), (MATCH.replace('mode = "two"', 'mode = ""'), 3 * A)]
    for (lines, expected), found in zip(cases, values(cases)):
        np.testing.assert_allclose(found, expected, rtol=1e-6, err_msg=lines)


def test_several_targets_of_which_one_is_part_of_a_tile_are_noted():
    (message,) = refused_each(["y[...] = z = x * 2.0"], "x = nl.load(a)\ny = nl.zeros((4, 6), dtype=nl.float32)\n")
    assert "one of several targets cannot be part of a tile" in message


def test_slices_from_containers_lambdas_and_functions():
    """An index that is a slice is not widened to a slice of one element."""
    body = """
        out = nl.ndarray((4, 6), dtype=a.dtype, buffer=nl.shared_hbm)
        pair = lambda n: slice(2 * n, 2 * n + 2)
        parts = [slice(0, 2), nl.ds(4, 2)]
        nl.store(out[:, pair(0)], nl.load(a[:, parts[1]]))
        nl.store(out[:, second()], nl.load(a[:, pair(1)]))
        for part in parts:
            nl.store(out[:, part], nl.load(a[:, part]))
        return out
    """
    head = FIRST + "def second():\n    return slice(2, 4)\n\n"
    a = np.arange(24, dtype=np.float32).reshape(4, 6)
    np.testing.assert_array_equal(run_migrated(body, a, head=head), a)

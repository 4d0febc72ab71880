"""Tiles created before a loop move into the loop if each iteration overwrites them, and stay otherwise."""

import numpy as np
import pytest

pytest.importorskip("libcst")
from migrated_kernels import FIRST, LATER, migrate_kernel
from trninfer import simulator
from trninfer.simulator.migrate import CHECK

MADE = "t = nl.ndarray((128, n, 64), dtype=a.dtype, buffer=nl.sbuf)\n"
LOOP = "for i in nl.sequential_range(8):\n"


def loop_of(body, head=FIRST):
    """Return the depth of the statement that creates `t` in the migrated kernel, and the lines of the notes on it."""
    migration = migrate_kernel(body, "a, b, n", head)
    (line,) = [line for line in migration.text.splitlines() if line.lstrip().startswith("t = ")]
    notes = [
        note for note in migration.notes if note.kind == CHECK and "is allocated in the loop of line" in note.message
    ]
    return len(line) - len(line.lstrip()), len(notes)


MOVED = {
    "whole": MADE + LOOP + "    t[...] = nl.load(a[i])\n    nl.store(b[i], t)",
    "slices": MADE + LOOP + "    t[:, 0:n, :64] = nl.load(a[i])\n    nl.store(b[i], t)",
    "dst": MADE + LOOP + "    nisa.dma_copy(dst=t, src=a[i])\n    nl.store(b[i], t)",
    "zeros": MADE.replace("ndarray", "zeros")
    + LOOP
    + "    t[...] = nl.load(a[i])\n    t[...] += 1\n    nl.store(b[i], t)",
    "index arrays": "p = nl.arange(128)[:, None, None]\nq = nl.arange(n)[None, :, None]\n"
    "r = nl.arange(64)[None, None, :]\n" + MADE + LOOP + "    t[p, q, r] = nl.load(a[i])\n    nl.store(b[i], t)",
    "by axis": MADE + LOOP + "    for j in range(n):\n        t[:, j, :] = nl.load(a[i, j])\n    nl.store(b[i], t)",
    "view": MADE + LOOP + "    t[...] = nl.load(a[i])\n    v = t.reshape((128, n * 64))\n    nl.store(b[i], v)",
    "independent": MADE + LOOP.replace("sequential", "affine") + "    if n:\n        t[0:4] = nl.load(a[i, 0:4])\n"
    "        nl.store(b[i, 0:4], t[0:4])",
}


@pytest.mark.parametrize("body", MOVED.values(), ids=MOVED)
def test_tiles_that_each_iteration_overwrites(body):
    assert loop_of(body) == (8, 1)


STAY = {
    "a part": MADE + LOOP + "    t[0:4] = nl.load(a[i])\n    nl.store(b[i], t)",
    "masked": MADE + LOOP + "    t[...] = nl.load(a[i], mask=nl.arange(128)[:, None] < n)\n    nl.store(b[i], t)",
    "under a condition": MADE + LOOP + "    if n:\n        t[...] = nl.load(a[i])\n    nl.store(b[i], t)",
    "accumulated": MADE.replace("ndarray", "zeros") + LOOP + "    t[...] += nl.load(a[i])\n    nl.store(b[i], t)",
    "accumulated by independent turns": MADE
    + "t[...] = 0.0\n"
    + LOOP.replace("sequential", "affine")
    + "    t[...] += 1",
    "read first": MADE + LOOP + "    nl.store(b[i], t)\n    t[...] = nl.load(a[i])",
    "read by its writer": MADE + LOOP + "    t[...] = nl.add(t, 1.0)\n    nl.store(b[i], t)",
    "read after the loop": MADE + LOOP + "    t[...] = nl.load(a[i])\nnl.store(b, t)",
    "written before the loop": MADE + "t[...] = 0\n" + LOOP + "    nl.store(b[i], t)",
    "in a list": MADE + LOOP + "    t[...] = nl.load(a[i])\n    tiles = [t]",
    "a view of the last turn": MADE
    + "v = b\n"
    + LOOP
    + "    nl.store(b[i], v)\n    t[...] = nl.load(a[i])\n    v = t[0:4]",
    "part of an axis": MADE
    + LOOP
    + "    for j in range(n - 1):\n        t[:, j, :] = nl.load(a[i, j])\n    nl.store(b[i], t)",
    "rows that may be none": MADE
    + LOOP
    + "    for j in range(n, 2 * n - n):\n        t[:, j, :] = nl.load(a[i, j])\n    nl.store(b[i], t)",
    "read as it fills": MADE + LOOP + "    for j in range(n):\n        t[:, j, :] = nl.load(a[i, j])\n"
    "        nl.store(b[i, j], t)",
    "its shape changes": MADE + "n = 4\n" + LOOP + "    t[...] = nl.load(a[i])\n    nl.store(b[i], t)",
    "in another loop too": MADE + (LOOP + "    t[...] = nl.load(a[i])\n    nl.store(b[i], t)\n") * 2,
    "in HBM": MADE.replace("sbuf", "shared_hbm") + LOOP + "    nl.store(t, nl.load(a[i]))",
}


@pytest.mark.parametrize("body", STAY.values(), ids=STAY)
def test_tiles_that_turns_share(body):
    assert loop_of(body) == (4, 0)


def test_later_dialects_gave_a_tile_one_address_too():
    body = MADE + "for i in range(8):\n    nisa.dma_copy(dst=t, src=a[i])\n    nisa.dma_copy(dst=b[i], src=t)"
    assert loop_of(body, LATER) == (4, 0)


def test_turns_overlap_and_compute_the_same(monkeypatch):
    body = "out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)\n"
    body += "# staged\nt = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.sbuf)\n"
    body += "for i in nl.sequential_range(8):\n    t[...] = nl.load(a[:, i * 512:(i + 1) * 512])\n"
    body += "    nl.store(out[:, i * 512:(i + 1) * 512], t * 2.0)\nreturn out"
    a = np.random.default_rng(0).random((128, 4096), np.float32)
    found = {}
    for name in ("moved", "before"):
        if name == "before":
            monkeypatch.setattr("trninfer.simulator.migrate.module.made_in_loops", lambda tree, names: {})
        text = migrate_kernel(body).text
        space = {"__name__": name}
        exec(compile(text, f"<{name}>", "exec"), space)
        found[name] = simulator.run(space["kernel"], a)
        np.testing.assert_array_equal(found[name].outputs[0], 2 * a)
        assert text.count("# staged") == 1
    assert found["moved"].latency_us < 0.8 * found["before"].latency_us

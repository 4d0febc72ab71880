"""Calls of NKI 0.2 to 0.6: renamed or removed arguments, and integers instead of enum members."""

import nki.isa as nisa
import pytest
from migrated_kernels import FIRST, LATER, migrate_kernel, migrated, migrated_each, refused_each

pytest.importorskip("libcst")
from trninfer.simulator.migrate import CHECK
from trninfer.simulator.migrate.later import DROPPED, RENAMED
from trninfer.simulator.nki.api import table
from trninfer.simulator.nki.dialect import ENUMS

HEAD = LATER + "from nki import collectives as cc\n\n"


TODAY = {
    "nisa.nc_matmul(a, a, a, is_moving_zero=n)": "nisa.nc_matmul(a, a, a, is_moving_onezero=n)",
    "nisa.dma_copy(dst=a, src=a, dge_mode=2)": "nisa.dma_copy(dst=a, src=a, dge_mode=nisa.dge_mode.hwdge)",
    "nisa.memset(a, 0.0, engine=5)": "nisa.memset(a, 0.0, engine=nisa.engine.vector)",
    "nisa.memset(a, 0.0, engine=nisa.engine.vector)": "nisa.memset(a, 0.0, engine=nisa.engine.vector)",
    "nisa.register_move(r, imm=n + 1)": "nisa.register_move(r, src=nisa.register_alloc(n + 1))",
    "nisa.sendrecv(a, a, 0, 1, 0, use_gpsimd_dma=True)": (
        "nisa.sendrecv(a, a, 0, 1, 0, dma_engine=nisa.dma_engine.gpsimd_dma)"
    ),
    "nisa.sendrecv(a, a, 0, 1, 0, use_gpsimd_dma=False)": "nisa.sendrecv(a, a, 0, 1, 0)",
    "t = nl.ndarray((4, 4), nl.int8, buffer='psum')": "t = nl.ndarray((4, 4), nl.int8, buffer=nl.psum)",
    "t = nl.ndarray((4, 4), buffer='sbuf', **o)": "t = nl.ndarray((4, 4), buffer=nl.sbuf, **o)",
    "t = other((4, 4), buffer='psum', engine=1)": "t = other((4, 4), buffer='psum', engine=1)",
    "for i in nl.affine_range(4):\n    pass": "for i in range(4):\n    pass",
    "for i in nl.sequential_range(n, stop=4):\n    pass": "for i in range(n, 4):\n    pass",
    "x = [i for i in nl.static_range(start=1, stop=n)]": "x = [i for i in range(1, n)]",
}


def test_calls_as_they_are_today():
    assert migrated_each(list(TODAY), "", "a, n, r", HEAD) == list(TODAY.values())


LEFT_OUT = {
    "nisa.dma_copy(a, a, unique_indices=True)": (
        "nisa.dma_copy(a, a)",
        "unique_indices= is removed: it belongs to nisa.dma_compute",
    ),
    "nisa.nc_matmul(a, a, a, psumAccumulateFlag=3)": (
        "nisa.nc_matmul(a, a, a)",
        "psumAccumulateFlag= is removed: the first product in a region of PSUM overwrites it",
    ),
    "for i in nl.affine_range(n, multi_buffer=2):\n    pass": (
        "for i in range(n):\n    pass",
        "multi_buffer= of a loop is removed, because the compiler orders instructions by their dependencies",
    ),
}


def test_dropped_arguments_are_noted():
    assert migrated_each(list(LEFT_OUT), "", "a, n", HEAD) == [new for new, _ in LEFT_OUT.values()]
    notes = migrate_kernel("\n".join(LEFT_OUT), "a, n", HEAD).notes
    assert [(note.kind, note.message) for note in notes] == [(CHECK, why) for _, why in LEFT_OUT.values()]


def test_calls_without_an_automatic_migration():
    cases = {
        "nisa.dma_copy(a, a, dge_mode=9)": "dge_mode=9 is not the number of a member of nisa.dge_mode",
        "nisa.sendrecv(a, a, 0, 1, 0, use_gpsimd_dma=n)": (
            "use_gpsimd_dma is not a constant: use dma_engine=nisa.dma_engine.gpsimd_dma"
        ),
    }
    assert refused_each(list(cases), "", "a, n", HEAD) == list(cases.values())


def test_every_number_of_an_enumeration_has_its_member():
    members = [(parameter, member) for parameter in ENUMS for member in getattr(nisa, parameter)]
    found = migrated_each([f"nisa.dma_copy(a, a, {each}={member.value})" for each, member in members], head=HEAD)
    assert found == [f"nisa.dma_copy(a, a, {each}=nisa.{each}.{member.name})" for each, member in members]


def test_renamed_and_dropped_arguments_do_not_exist_in_nki_0_7():
    today = {f["qualname"]: {p["name"] for p in f["params"]} for f in table()["functions"]}
    for (function, old), new in RENAMED.items():
        assert new in today[function] and old not in today[function]
    for function, old in DROPPED:
        assert old not in today[function]


def test_the_dtype_of_an_instruction_is_that_of_dst():
    line = "nisa.tensor_copy(dst=x, src=x, dtype=nl.float32)"
    for head in (FIRST, LATER):
        assert "nisa.tensor_copy(dst=x, src=x)" in migrated(f"x = nl.load(a[0:4, 0:4])\n{line}", head=head)

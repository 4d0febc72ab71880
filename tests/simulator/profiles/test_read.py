"""Profiles exported by neuron-explorer are read completely, and other files are rejected with one line."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_profiles import PROFILE, write, write_tables
from trninfer.simulator.profiles import ProfileError, critical_path, engines, read_profile


def test_json_of_one_core(tmp_path: Path) -> None:
    run = read_profile(write(tmp_path / "full.json"))
    assert [i.id for i in run.instructions] == [1, 4, 2, 3, 5, 6, 7]  # in order of their start
    assert run.total_ns == 11_690 and not run.instructions[0].ours
    assert [(p.maker, p.size) for p in run.packets] == [
        ("prepared", 4),
        ("software", 256),
        ("hardware", 4096),
        ("hardware", 4096),
    ]
    assert run.missing == ("lines of the kernel",)
    assert [i.id for i in read_profile(write(tmp_path / "full.json"), core=1).instructions] == [8]
    with pytest.raises(ProfileError, match="no instruction of core 2"):
        read_profile(write(tmp_path / "full.json"), core=2)


def test_tables_report_the_same(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    whole, tables = read_profile(write(tmp_path / "full.json")), read_profile(write_tables(tmp_path / "tables"))
    assert [i[:5] for i in tables.instructions] == [i[:5] for i in whole.instructions]
    assert tables.packets == whole.packets and tables.total_ns == whole.total_ns
    assert {i.line for i in tables.instructions if i.opcode == "MATMUL"} == {"kernel.py:7"}
    assert any("dependencies of instructions" in missing for missing in tables.missing)


def changed(change: Any) -> Any:
    profile = deepcopy(PROFILE)
    change(profile)
    return profile


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda p: p["instruction"][2].update(timestamp=-1), "instruction 2: from -1 to None ns; expected"),
        (lambda p: p["instruction"][2].update(timestamp="x"), "instruction 2: from 'x'"),
        (lambda p: p["instruction"][2].update(duration=1e9), "instruction 2: from 5660"),
        (lambda p: p["instruction"][2].update(duration=10**30), "expected two integers from 0 to one hour"),
        (lambda p: p["instruction"][2].update(opcode=7), "instruction 2: opcode must be text, got 7"),
        (lambda p: p["instruction"].insert(0, [1]), "instruction 0 is not an object"),
        (lambda p: p.update(instruction={"a": 1}), "instruction is not a list of rows"),
        (lambda p: p.update(instruction=[]), "no instruction of core 0"),
        (lambda p: p["dma"][1].update(transfer_size=-4), "DMA packet 1: its size must be at least 0 bytes, got -4"),
        (lambda p: p["dma"][1].update(timestamp=True), "DMA packet 1: from True"),
        (lambda p: p.pop("instruction"), "not a profile with instructions; export the whole profile"),
    ],
)
def test_a_forged_profile_is_one_line(tmp_path: Path, change: Any, told: str) -> None:
    with pytest.raises(ProfileError) as caught:
        read_profile(write(tmp_path / "forged.json", changed(change)))
    assert told in str(caught.value) and "\n" not in str(caught.value) and len(str(caught.value)) < 300
    assert str(caught.value).startswith("forged.json: ")


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.json", b"\x00\xff", "not JSON"),
        ("a.json", b"[" * 200_000, "not JSON"),
        ("a.json", b"[1, 2]", "not a profile with instructions"),
        ("a.json", b'{"n0": {"total_time": 0.0001}}', "this is a summary without instructions"),
        ("a.neff", b"", "a program, not a profile; pass the NTFF of a run"),
        ("Instruction.parquet", b"PAR1", "single table of a profile; pass its folder"),
    ],
)
def test_file_that_is_not_a_profile_is_reported(tmp_path: Path, name: str, content: bytes, told: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ProfileError, match=told):
        read_profile(path)


def test_damaged_tables_are_reported(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    with pytest.raises(ProfileError, match=r"the folder contains no Instruction\.parquet"):
        read_profile(tmp_path)
    (tmp_path / "Instruction.parquet").write_bytes(b"PAR1" + bytes(60) + b"PAR1")
    with pytest.raises(ProfileError, match=r"Instruction\.parquet: not a Parquet table"):
        read_profile(tmp_path)


anything = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 10**13) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
fields = st.sampled_from(sorted({name for table in ("instruction", "dma") for row in PROFILE[table] for name in row}))


@given(st.lists(st.tuples(st.sampled_from(["instruction", "dma"]), st.integers(0, 7), fields, anything), max_size=6))
def test_profile_with_arbitrary_fields_is_read_or_refused(tmp_path_factory: Any, edits: Any) -> None:
    profile = deepcopy(PROFILE)
    for table, row, field, value in edits:
        profile[table][row % len(profile[table])][field] = value
    path = tmp_path_factory.mktemp("edited") / "p.json"
    path.write_text(json.dumps(profile))
    try:
        run = read_profile(path)
    except ProfileError as error:
        assert "\n" not in str(error)
        return
    steps = critical_path(run)
    assert sum(step.end_ns - step.start_ns for step in steps) == run.total_ns
    assert all(0 <= engine.share <= 1 for engine in engines(run))


@pytest.mark.parametrize("text", ["{},", "[],", '{"":0},'])
def test_json_that_takes_more_than_it_looks(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"instruction": [' + text * (40_000_000 // len(text)) + "{}]}")
    with pytest.raises(ProfileError, match="bytes of memory; export it as Parquet"):
        read_profile(path)

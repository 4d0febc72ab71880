"""Raw profiles: the fields common to both versions are read identically, and a damaged file is rejected with one
line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_ntff import made_ntff, write_ntff
from trninfer.simulator.profiles import ProfileError, critical_path, makers, read_profile


@pytest.mark.parametrize("with_run", [True, False])
@pytest.mark.parametrize("version", [5, 6])
def test_both_versions_are_read_alike(tmp_path: Path, version: int, with_run: bool) -> None:
    """If the message lacks its times, a run lasts from the middle of its first marker to the middle of its last."""
    run = read_profile(write_ntff(tmp_path / "p.ntff", made_ntff(version, with_run)))
    assert run.total_ns == 6002 and run.missing == ("lines of the kernel",)
    kernel = [(i.engine, i.opcode, i.start_ns, i.end_ns, i.after) for i in run.instructions if i.ours]
    numbers = {i.opcode: i.id for i in run.instructions if i.ours}
    assert kernel == [
        ("tensor", "MATMUL", 1000, 1300, ()),
        ("tensor", "TRANSPOSE", 1110, 1382, ()),
        ("gpsimd", "EVENT_SEMAPHORE", 1340, 1360, ()),
        ("vector", "COPY", 1420, 2005, (numbers["TRANSPOSE"],)),
        ("gpsimd", "DMA_DIRECT2D", 3198, 3235, (numbers["MATMUL"], numbers["COPY"])),
    ]
    assert makers(run) == {"software": (1, 4096)}  # excludes the runtime's own ring


def test_the_path_of_a_raw_profile(tmp_path: Path) -> None:
    """The store waited for the copy, which waited for the transpose, which waited for its engine."""
    run = read_profile(write_ntff(tmp_path / "p.ntff", made_ntff()))
    path = [step.opcode for step in critical_path(run) if step.opcode]
    assert path == ["MATMUL", "TRANSPOSE", "COPY", "DMA_DIRECT2D"]


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "0 bytes; an NTFF has at least 128 bytes of header"),
        (b"\x07" + bytes(200), "the NTFF version must be 5 or 6, got 7; export it instead: neuron-explorer view"),
        (b"\x06" + (10**9).to_bytes(7, "little") + bytes(120), "truncated: a message of 1,000,000,000 bytes"),
        (made_ntff()[:-100], "truncated"),
        (b"\x06\x03" + bytes(126) + b"\x22\xff\x01", "truncated: a field has 255 bytes, but only 0 bytes remain"),
        (b"\x06\x01" + bytes(126) + b"\xff", "damaged: an unterminated number"),
        (b"\x06\x01" + bytes(126) + b"\x03", "damaged: the kind of each field must be 0, 1, 2 or 5, got 3"),
        (made_ntff().replace(b"sg00", b"sg02"), "no instruction of core 0"),
    ],
)
def test_unreadable_profile_is_refused_in_one_line(tmp_path: Path, data: bytes, told: str) -> None:
    with pytest.raises(ProfileError) as caught:
        read_profile(write_ntff(tmp_path / "p.ntff", data))
    assert told in str(caught.value) and str(caught.value).startswith("p.ntff: ") and "\n" not in str(caught.value)


def test_a_core_that_ran_nothing_is_refused(tmp_path: Path) -> None:
    path = write_ntff(tmp_path / "p.ntff", made_ntff())
    with pytest.raises(ProfileError, match="no instruction"):
        read_profile(path, core=1)
    with pytest.raises(ProfileError, match="no instruction of core 7"):
        read_profile(path, core=7)


edits = st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=8)


@given(st.sampled_from([5, 6]), edits, st.integers(0, 10_000))
def test_any_damage_is_read_or_refused(tmp_path_factory: Any, version: int, changes: Any, cut: int) -> None:
    data = bytearray(made_ntff(version))
    for place, value in changes:
        data[place % len(data)] = value
    path = write_ntff(tmp_path_factory.mktemp("damaged") / "p.ntff", bytes(data[: cut or None]))
    try:
        run = read_profile(path)
    except ProfileError as error:
        assert "\n" not in str(error) and len(str(error)) < 300
        return
    assert sum(step.end_ns - step.start_ns for step in critical_path(run)) == run.total_ns

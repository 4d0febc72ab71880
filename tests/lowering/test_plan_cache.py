"""Plans on disk: a saved plan is read back, but a damaged plan, or one for another purpose, is ignored."""

import json
import os
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lowered import decide, graph_of
from random_networks import conv, ending_in_dense
from trninfer.lowering.cache_folder import CACHE_VARIABLE
from trninfer.lowering.config import LoweringConfig
from trninfer.lowering.graph.graph import NodeId
from trninfer.lowering.launch_plan import LaunchPlanner
from trninfer.lowering.plan_cache import PlanCache, TuningRecord, _digest, digest_of, key_of, plan_folder

RECORD = TuningRecord(decide(packs_rows=True, packed=4, copied=(NodeId(2),)), 12.5, 99)
GRAPH = graph_of(ending_in_dense((3, 6, 5), [conv("a", 3, 8, 3)]))


def test_a_plan_is_there_for_another_process(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "plans"
    PlanCache(folder).put("key", RECORD)
    assert PlanCache(folder).get("key") == RECORD and PlanCache(folder).get("other") is None
    assert [path.name for path in folder.iterdir()] == ["key.json"]


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "{}", '{"decisions": {}, "nanoseconds": 1, "instructions": 1}', "[" * 99_999, "1" * 5000]
)
def test_a_damaged_plan_is_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "key.json").write_text(content)
    cache = PlanCache(tmp_path)
    assert cache.get("key") is None
    cache.put("key", RECORD)
    assert PlanCache(tmp_path).get("key") == RECORD


FORGED = [
    ("pack_images", None, 0), ("pack_images", None, -1), ("pack_images", None, 3), ("pack_images", None, "x"),
    ("stage", [99], 1), ("stage", None, 0), ("stage", None, -1), ("stage", None, 10**30),
    ("form", [0], ["no form", 0]), ("form", [99], ["direct", 0]), ("form", [0], 1), ("bands", [0], [[99], 2]),
    ("bands", [0], [[0], 0]), ("bands", [0], [[0], -1]), ("bands", None, 1), ("warm_up", [0], [[0, 10**30]]),
    ("warm_up", [0], [[99, 1]]), ("warm_up", [99], [[0, 1]]), ("prefetch", None, 8),
    ("fill_taps", None, 7),
    ("copies", [None], True), ("spill", [-1], True), ("unknown", None, True), ("pack_rows", None, 2), None,
]  # fmt: skip


@pytest.mark.parametrize("change", FORGED, ids=str)
def test_a_forged_plan_is_made_anew(tmp_path: Path, change: Any) -> None:
    """Its digest is valid, because anyone who may write to the folder can compute it."""
    first = planner(PlanCache(tmp_path)).plan(4)
    (file,) = tmp_path.glob("*-4.json")
    plan = json.loads(file.read_text())["plan"]
    forged = None if change is None else dict(zip(("kind", "node", "value"), change))
    others = [choice for choice in plan["decisions"] if change and choice["kind"] != change[0]]
    plan["decisions"] = [*others, forged] if forged else forged
    file.write_text(json.dumps({"sha256": _digest(file.stem, plan), "plan": plan}))
    again = planner(PlanCache(tmp_path)).plan(4)
    assert again.instructions == first.instructions


def planner(cache: PlanCache) -> LaunchPlanner:
    return LaunchPlanner(GRAPH, LoweringConfig("trn2", 4, cache=cache))


def test_no_number_of_a_plan_can_be_another(tmp_path: Path) -> None:
    PlanCache(tmp_path).put("key", RECORD)
    file = tmp_path / "key.json"
    whole, chance = file.read_bytes(), random.Random(0)
    for _ in range(300):
        damaged = bytearray(whole)
        damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        file.write_bytes(damaged)
        assert PlanCache(tmp_path).get("key") in (None, RECORD), damaged
    data = json.loads(whole)
    for odd in (7, -1, 1e999, None, [], {"end": 1}):  # well-formed, but different from the saved value
        file.write_text(json.dumps({**data, "plan": {**data["plan"], "instructions": odd}}))
        assert PlanCache(tmp_path).get("key") is None
    (tmp_path / "other.json").write_bytes(whole)
    assert PlanCache(tmp_path).get("other") is None


def test_a_plan_that_is_no_file_is_none(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")  # a pipe without a writer
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "loop.json").symlink_to("loop.json")
    (tmp_path / "device.json").symlink_to("/dev/zero")
    for key in ("pipe", "folder", "loop", "device"):
        cache = PlanCache(tmp_path)
        assert cache.get(key) is None
        cache.put(key, RECORD)
        assert cache.get(key) == RECORD
    assert sorted(path.name for path in tmp_path.iterdir()) == ["device.json", "folder.json", "loop.json", "pipe.json"]


def test_sources_are_compared_by_what_they_hold(tmp_path: Path) -> None:
    first, second = tmp_path / "a.py", tmp_path / "b.py"
    first.write_text("1")
    second.write_text("2")
    os.utime(first, (4e9, 4e9))  # dated 2096, by a wrong clock
    before = digest_of((first, second))
    second.write_text("3")
    os.utime(second, (1, 1))
    assert digest_of((first, second)) != before
    second.write_text("2")
    assert digest_of((first, second)) == before


def test_without_a_folder_or_with_one_that_cannot_be_plans_stay_in_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (None, tmp_path / "file" / "plans"):
        cache = PlanCache(folder)
        cache.put("key", RECORD)
        assert cache.get("key") == RECORD and PlanCache(folder).get("key") is None


def test_a_key_is_of_all_that_a_plan_depends_on() -> None:
    others = [
        key_of(GRAPH, "trn3", 1),
        key_of(GRAPH, "trn2", 2),
        key_of(replace(GRAPH, itemsize=2), "trn2", 1),
        key_of(replace(GRAPH, from_host=False), "trn2", 1),
        key_of(graph_of(ending_in_dense((3, 6, 5), [conv("a", 3, 9, 3)])), "trn2", 1),
    ]
    key = key_of(GRAPH, "trn2", 1)
    assert key not in others and len(set(others)) == len(others)
    assert key == key_of(graph_of(ending_in_dense((3, 6, 5), [conv("a", 3, 8, 3)])), "trn2", 1)
    assert key == key_of(graph_of(ending_in_dense((3, 6, 5), [conv("b", 3, 8, 3)])), "trn2", 1)
    alike = [node.changed(name="a") for node in GRAPH.nodes]
    assert key != key_of(GRAPH.with_nodes(alike), "trn2", 1)  # all of its nodes belong to one layer


def test_the_folder_is_the_one_that_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    assert plan_folder() == tmp_path / "plans"
    monkeypatch.delenv(CACHE_VARIABLE)
    usual = plan_folder()
    assert usual is not None and usual.name == "plans" and tmp_path not in usual.parents

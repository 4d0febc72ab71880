"""The kernel on the first page for kernel authors: the statements about it are true."""

import re
from pathlib import Path

import pytest
from trninfer import simulator
from trninfer.simulator.checking.lint import check_source

pytest.importorskip("libcst")
from trninfer.simulator.migrate import migrate_source

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "simulator.md").read_text(encoding="utf-8")


def test_kernel_of_the_first_page_migrates_and_its_fault_can_be_fixed(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    old, loop, mended = blocks[0], blocks[1], blocks[2]
    migration = migrate_source(old)
    assert migration.is_whole and loop in migration.text and check_source(migration.text) == []
    before = "        nisa.activation(dst=powers, op=nl.exp, data=tile)\n"
    assert before in migration.text
    found = {}
    for name, text in (("old", migration.text), ("new", migration.text.replace(before, mended))):
        space = {"__name__": name}
        exec(compile(text, str(tmp_path / f"{name}.py"), "exec"), space)
        a = space["np"].random.default_rng(0).normal(0, 30, (256, 512)).astype("float32")
        found[name] = [each.why for each in simulator.run(space["softmax"], a, sanitize="all").findings]
    told = re.findall(r"softmax.py:\d+: (?:infinity|nan): (.*) \(\d+ bytes\)", PAGE.partition("## From Python")[0])
    assert found == {"old": told, "new": []}

"""The example in docs/adding.md, a new kind of layer, as printed there."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from lowered import assert_right, graph_of
from random_networks import conv, ending_in_dense
from trninfer.lowering import rules  # noqa: F401 (registers them)
from trninfer.lowering.builder import RULES
from trninfer.lowering.decisions import Decisions
from trninfer.lowering.graph.graph import Unsupported

PAGE = Path(__file__).resolve().parents[2] / "docs" / "adding.md"
BLOCK = re.compile(r"^`((?:\w+/)+\w+)\.py`[:;].*?\n+```python\n(.*?)^```", re.M | re.S)


def load(name: str, source: str) -> ModuleType:
    """Load a module of the package from its source text."""
    module = ModuleType(name)
    module.__package__ = name.rpartition(".")[0]
    sys.modules[name] = module
    exec(compile(source, name, "exec"), vars(module))
    return module


@pytest.fixture
def files() -> Iterator[dict[str, str]]:
    """Return the files of the example by module; what they register is removed after the test."""
    found = {f"trninfer.{name.replace('/', '.')}": source for name, source in BLOCK.findall(PAGE.read_text("utf-8"))}
    known = dict(RULES)
    yield found
    RULES.clear()
    RULES.update(known)
    for name in found:
        sys.modules.pop(name, None)


def test_the_example_of_a_layer_computes_what_its_golden_model_does(files: dict[str, str]) -> None:
    layer_file, rule_file = files
    flip = load(layer_file, files[layer_file]).ChannelFlip
    network = ending_in_dense((3, 6, 5), [conv("a", 3, 8, 3), flip("flipped"), conv("b", 8, 4, 3)])
    with pytest.raises(Unsupported, match=r"layer 'flipped' \(channel_flip\) has no lowering rule"):
        graph_of(network)
    load(rule_file, files[rule_file])
    for dtype in ("float32", "bfloat16"):
        assert_right(network, Decisions(), 3, dtype)
    x = np.arange(6.0).reshape(1, 6)
    np.testing.assert_array_equal(flip("f").run({}, x), x[:, ::-1])

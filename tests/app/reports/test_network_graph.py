"""`bench --graph`: every layer and its inputs, the source of the times, and escaped text."""

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from trninfer.app.reports.network_graph import GraphTitle, render_graph
from trninfer.app.reports.report import LayerTable
from trninfer.models.inputs import ImageInput
from trninfer.models.layers import Combine, Conv2d, Dense, Flatten, Softmax
from trninfer.models.network import Network
from trninfer.runtime.timing import LayerTiming

SVG = "{http://www.w3.org/2000/svg}"
BRANCHING = Network(
    "a<b>&'c'",
    ImageInput(1, 4, 4, "none", (0.0,), (1.0,)),
    (
        Conv2d("first", 1, 2, (3, 3), (1, 1, 1, 1)),
        Conv2d("left", 2, 2, (3, 3), (1, 1, 1, 1), inputs=("first",)),
        Conv2d("<script>", 2, 2, (3, 3), (1, 1, 1, 1), inputs=("left",)),
        Combine("sum", "add", inputs=("<script>", "first")),
        Flatten("flatten"),
        Dense("head", 32, 2),
        Softmax("softmax"),
    ),
    ("x", "y"),
)


def timing(name: str, us: float) -> LayerTiming:
    return LayerTiming(name, "conv2d", (1,), (1,), 0, 0, us, None, 0.5, None, None)


def draw(kind: str = "predicted") -> ElementTree.Element:
    rows = (timing("launch", 10.0), timing("first", 8.0), timing("left", 2.0), timing("<script>", 0.0))
    title = GraphTitle(kind, "trn2", "float32", 3)
    return ElementTree.fromstring(render_graph(BRANCHING, LayerTable("", "", rows, None), title))


def boxes(root: ElementTree.Element) -> dict[str, ElementTree.Element]:
    return {group.findtext(f"{SVG}text"): group for group in root.iter(f"{SVG}g")}


def test_each_layer_is_below_what_it_reads() -> None:
    shown = boxes(draw())
    assert set(shown) == {"input", *(layer.name for layer in BRANCHING.layers)}
    tops = {name: float(group.find(f"{SVG}rect").get("y")) for name, group in shown.items()}
    assert all(tops[read] < tops[layer.name] for layer in BRANCHING.layers for read in layer.inputs)


def test_edges_join_what_is_read_with_its_reader() -> None:
    root = draw()
    rects = {name: group.find(f"{SVG}rect") for name, group in boxes(root).items()}
    middle = {name: float(rect.get("x")) + float(rect.get("width")) / 2 for name, rect in rects.items()}
    ends = set()
    for path in root.iter(f"{SVG}path"):
        numbers = [float(each) for each in re.findall(r"[\d.]+", path.get("d"))]
        ends.add((numbers[0], numbers[1], numbers[-2], numbers[-1]))
    wanted = {
        (middle[read], float(rects[read].get("y")) + float(rects[read].get("height")), middle[layer.name],
         float(rects[layer.name].get("y")))
        for layer in BRANCHING.layers
        for read in layer.inputs
    }  # fmt: skip
    assert len(ends) == len(wanted) == 8
    assert all(any(end == pytest.approx(each, abs=0.2) for each in wanted) for end in ends)


def test_times_have_their_kind_and_colour_the_boxes() -> None:
    for kind in ("predicted", "measured"):
        shown = boxes(draw(kind))
        words = {name: [text.text for text in group.iter(f"{SVG}text")] for name, group in shown.items()}
        assert words["first"] == ["first", "conv2d 2x4x4", f"8.00 us {kind}"]
        assert words["head"][2] == "no separate time"
    fills = {name: group.find(f"{SVG}rect").get("fill") for name, group in shown.items()}
    assert fills["first"] == "#ff963c" and fills["<script>"] == fills["head"] == "#f6f6f3" != fills["left"]


def test_a_dark_theme_has_colours_of_its_own() -> None:
    style = draw().findtext(f"{SVG}style")
    assert "prefers-color-scheme: dark" in style and "color-mix" in style
    warmth = {name: group.find(f"{SVG}rect").get("style") for name, group in boxes(draw()).items()}
    assert warmth["first"] == "--warmth: 100%" and warmth["head"] == "--warmth: 0%"


def test_names_are_text() -> None:
    root = draw()
    assert not list(root.iter(f"{SVG}script"))
    assert root.findtext(f"{SVG}title").startswith("a<b>&'c': a batch of 3 in float32 on trn2, 20.00 us predicted")


def test_the_command_writes_it(cli, feature_model: Path, tmp_path: Path) -> None:
    file = tmp_path / "graph.svg"
    told = cli("bench", "--model", feature_model, "--backend", "sim", "--graph", file, "--quiet")
    assert told.status == 0 and "hidden" in boxes(ElementTree.parse(file).getroot())
    assert list(tmp_path.iterdir()) == [file]


def test_incompatible_options_are_reported(cli, feature_model: Path, tmp_path: Path) -> None:
    file, before = tmp_path / "graph.svg", feature_model.read_bytes()
    words = ("bench", "--backend", "sim", "--graph")
    assert "so it requires --model" in cli(*words, file).err
    assert "not supported in a sweep" in cli(*words, file, "--model", feature_model, "--batch-size", "1,2").err
    assert "does not exist" in cli(*words, tmp_path / "no" / "graph.svg", "--model", feature_model).err
    assert "both write" in cli(*words, file, "--model", feature_model, "--report", file).err
    assert "this file is read as input" in cli(*words, feature_model, "--model", feature_model).err
    assert feature_model.read_bytes() == before and not file.exists()

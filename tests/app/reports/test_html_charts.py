"""The charts of a page: bars of shares, and points below the roofline."""

import re

import pytest
from report_pages import Page, layer
from trninfer.app.reports import html_charts as charts
from trninfer.app.reports.report import LayerTable


def test_a_layer_at_a_roof_is_drawn_on_its_line() -> None:
    """A layer that takes ten microseconds at the PE array's peak, and one at the HBM bandwidth."""
    limits = {roof.name: roof.value for roof in charts.roofs("trn2", "bfloat16")}
    assert limits["PE array, 16 bits"] == 2 * 128 * 128 * 2.4e9 and "PE array, float32" not in limits
    assert {roof.name: roof.value for roof in charts.roofs("trn2", "float32")}["PE array, float32"] == 128 * 128 * 1.2e9
    assert limits["HBM"] == pytest.approx(2.9e12 / 4, rel=0.02)  # the bandwidth of one of the chip's four HBM stacks
    assert limits["16 DMA engines"] == 368e9
    busy = layer("at the peak", flops=round(limits["PE array, 16 bits"] * 1e-5), hbm_bytes=1000)
    moving = layer("at the bandwidth", flops=1000, hbm_bytes=round(limits["HBM"] * 1e-5))
    source = charts.roofline(
        [LayerTable("t", "", (busy, moving, layer("still", flops=0)))], "trn2", "bfloat16", "predicted"
    )
    page = Page(source)
    circles = {title: circle for title, circle in zip(re.findall(r"<title>(at the \w+)", source), page.all("circle"))}
    flat, slope = (
        next(line for line in page.all("line") if line.get("class") == "roof" and (line["y1"] == line["y2"]) == is_flat)
        for is_flat in (True, False)
    )
    assert circles["at the peak"]["cy"] == flat["y1"]
    x1, y1, x2, y2 = (float(slope[key] or "nan") for key in ("x1", "y1", "x2", "y2"))
    x, y = (float(circles["at the bandwidth"][key] or "nan") for key in ("cx", "cy"))
    assert (y - y1) / (x - x1) == pytest.approx((y2 - y1) / (x2 - x1), rel=0.01)
    assert "not on the chart: still" in source


def test_labels_do_not_overlap() -> None:
    layers = tuple(layer(f"layer number {i}", flops=4_000_000 + 1000 * i) for i in range(30))
    page = Page(charts.roofline([LayerTable("t", "", layers)], "trn2", "float32", "predicted"))
    labels = [text for text in page.all("text") if text.get("class") == "point-label"]
    places = [(float(text["x"] or 0), float(text["y"] or 0)) for text in labels]
    assert 1 <= len(places) < 30
    assert all(abs(y - v) >= 13.9 or abs(x - u) > 80 for i, (x, y) in enumerate(places) for u, v in places[:i])


def widths(page: Page) -> list[float]:
    return [float((span.get("style") or "").removeprefix("flex-grow:")) for span in page.all("span") if "style" in span]


def test_a_bar_is_shared_by_the_layers_and_by_the_resources() -> None:
    rows = (
        layer("first", latency_us=75.0, critical={"tensor": 70.0, "vector": 5.0}),
        layer("next", latency_us=20.0, critical={"vector": 20.0}, bound_by="vector"),
        layer("last", latency_us=5.0, critical={"other_core": 5.0}, bound_by=None),
    )
    page = Page(charts.time_bar(LayerTable("net", "", rows)))
    assert widths(page) == [0.75, 0.2, 0.05, 0.7, 0.25, 0.05]
    assert "first" in page.text and "last" not in page.text  # too narrow for its name
    titles = [span["title"] for span in page.all("span") if "title" in span]
    assert titles[1:4] == [
        "next: 20.00 us, 20.0 %, bound by Vector Engine", "last: 5.00 us, 5.0 %", "Tensor Engine: 70.00 us, 70.0 %",
    ]  # fmt: skip
    assert [span["class"] for span in page.all("span") if "title" in span][:3] == [
        "segment tensor", "segment vector", "segment unknown",
    ]  # fmt: skip
    still = Page(charts.time_bar(LayerTable("net", "", (layer(latency_us=0.0),))))
    assert widths(still) == [1e-6]


def test_the_legend_has_the_colours_that_occur() -> None:
    page = Page(charts.bound_legend([layer(bound_by="dma_latency"), layer(bound_by=None), layer(bound_by="launch")]))
    assert [span["class"] for span in page.all("span")] == ["swatch launch", "swatch dma_latency", "swatch unknown"]


def test_points_are_of_the_time_in_which_a_layer_works() -> None:
    rows = (
        layer("busy", flops=800, hbm_bytes=200, latency_us=6.0, active_us=4.0, hardware_flops=400, mfu=0.5),
        layer("beside", flops=800, hbm_bytes=200, latency_us=2.0, hardware_flops=4000),
        layer("moves", flops=0), layer("computes", hbm_bytes=0), layer("no time", latency_us=0.0),
        layer("hidden", latency_us=5.0, active_us=0.0),
    )  # fmt: skip
    found, without = charts.points([LayerTable("t", "a/", rows[:2]), LayerTable("u", "b/", rows[2:])])
    busy, beside = found
    # Elementwise operations do not run on the PE array, so they are excluded from the roofline.
    assert (busy.name, busy.intensity, busy.rate, busy.hardware_rate) == ("a/busy", 2.0, 100e6, 100e6)
    assert (beside.intensity, beside.rate, beside.hardware_rate) == (4.0, 400e6, 2000e6)
    assert busy.share == pytest.approx(6 / 33) and without == ["b/moves", "b/computes", "b/no time", "b/hidden"]


def test_a_ring_marks_layers_with_additional_array_operations() -> None:
    def rings(hardware: float) -> int:
        row = layer(flops=1000, hardware_flops=round(1000 * hardware), active_us=1.0)
        page = Page(charts.roofline([LayerTable("t", "", (row,))], "trn2", "float32", "predicted"))
        return sum(str(circle["class"]).startswith("ring") for circle in page.all("circle"))

    assert [rings(1.0), rings(1.09), rings(1.2)] == [0, 0, 1]


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_a_roof_ends_at_the_intersection(target: str) -> None:
    source = charts.roofline([LayerTable("t", "", (layer(),))], target, "float32", "predicted")
    roofs = [line for line in Page(source).all("line") if str(line.get("class")).startswith("roof")]
    assert [line["class"] for line in roofs] == ["roof", "roof lesser", "roof", "roof lesser"]
    flat, slope = roofs[0], roofs[2]
    assert (flat["x1"], flat["y1"]) == (slope["x2"], slope["y2"]) and flat["y1"] == flat["y2"]
    assert float(slope["x1"] or "nan") < float(slope["x2"] or "nan") and "PE array, float32" in source

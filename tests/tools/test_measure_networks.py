"""docs/networks.md contains the table of standard architectures: all of them, from both exporters, within limits."""

import pytest
from trninfer.runtime.tolerances import network_tolerance
from trninfer.tools import measure_networks

REQUIRED = (
    *("alexnet", "vgg11", "vgg11_bn", "vgg16", "vgg16_bn", "resnet18", "resnet34", "resnet50", "resnext50_32x4d"),
    *("squeezenet1_1", "googlenet", "densenet121", "mobilenet_v2", "mobilenet_v3_small", "mnasnet0_5"),
    *("shufflenet_v2_x0_5", "efficientnet_b0", "regnet_y_400mf", "convnext_tiny"),
)
BOUNDS = {"float32": 1e-5, "bfloat16": network_tolerance("bfloat16"), "float16": network_tolerance("float16")}
ROWS = dict(measure_networks.rows_of(measure_networks.PAGE.read_text("utf-8")))


@pytest.mark.parametrize("exporter", ["script", "dynamo"])
@pytest.mark.parametrize("name", REQUIRED)
def test_every_architecture_has_a_row_within_the_bounds(name: str, exporter: str) -> None:
    row = dict(zip(measure_networks.HEADINGS, ROWS[name, exporter], strict=True))
    differences = row["difference: float32, bfloat16, float16"].split(", ")
    assert len(differences) == len(BOUNDS)
    for dtype, difference in zip(BOUNDS, differences):
        assert 0 < float(difference) <= BOUNDS[dtype], dtype
    assert float(row["parameters"].removesuffix(" M")) > 1
    launches = [int(count) for count in row["launches: float32, bfloat16"].split(", ")]
    assert len(launches) == 2 and min(launches) >= 1
    predicted = [float(value) for value in row["predicted: float32, bfloat16"].removesuffix(" ms").split(", ")]
    assert len(predicted) == 2 and predicted[0] > predicted[1] > 0
    assert 0 < float(row["a picture of 16: bfloat16"].removesuffix(" us")) <= 1000 * predicted[1] + 5
    assert all(float(row[column].removesuffix(" s")) > 0 for column in ("import", "answer"))


def test_the_tool_measures_those_and_no_others() -> None:
    assert measure_networks.NETWORKS == REQUIRED
    assert set(ROWS) == {(name, exporter) for name in REQUIRED for exporter in measure_networks.EXPORTERS}


def test_rows_are_written_as_they_are_read() -> None:
    row = measure_networks.Row(
        "alexnet", "script", 61_100_000, (1.5e-10, 1.2e-7, 1.7e-8), (1270.0, 700.0), 150.0, (18, 1), 8.2, 0.9
    )
    page = "before\n<!-- measured: networks -->\nold\n<!-- end of networks -->\nafter\n"
    filled = measure_networks.filled(page, [row.cells()])
    assert dict(measure_networks.rows_of(filled)) == {("alexnet", "script"): row.cells()}
    assert filled.startswith("before\n") and filled.endswith("after\n") and "old" not in filled

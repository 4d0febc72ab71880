"""docs/networks.md contains the tables of launches and sizes; networks are resized like exports of other sizes."""

import re

import pytest
from random_networks import conv, labels, picture
from trninfer.models.layers import Dense, Flatten, Pool
from trninfer.models.network import Network
from trninfer.tools import measure_launches
from trninfer.tools.measure_launches import FAMILIES, LARGE, NETWORKS, SIZES, WAYS, filled, for_size, shown

PAGE = measure_launches.PAGE.read_text("utf-8")


def table(name: str) -> list[list[str]]:
    """Return the cells of a table on the page, without its separator line."""
    block = PAGE.split(f"<!-- predicted: {name} -->\n")[1].split("<!-- end of")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()]
    return [rows[0], *rows[2:]]


@pytest.mark.parametrize(("name", "networks", "columns"), [("ways", NETWORKS, WAYS), ("sizes", FAMILIES, SIZES)])
def test_every_network_has_a_row(name: str, networks: tuple[str, ...], columns: tuple[object, ...]) -> None:
    _, *rows = table(name)
    assert [row[0] for row in rows] == list(networks)
    for row in rows:
        assert len(row) == 1 + len(columns) and all(float(cell.replace(",", "")) > 0 for cell in row[1:])


def test_published_and_predicted_times_are_in_separate_columns() -> None:
    headings, *rows = table("large")
    assert headings[3:5] == ["published, measured", "predicted"]
    expected = [(each.export.name, str(n), each.published) for each in LARGE for n in each.batches]
    assert [(row[0], row[2], row[3]) for row in rows] == expected
    assert all(float(row[4].replace(",", "")) > 0 and float(row[5]) >= 1 for row in rows)


def test_time_for_each_pixel_of_the_table_rises_by_less_than_a_third() -> None:
    for _, *cells in table("sizes")[1:]:
        times = dict(zip(SIZES, (float(cell.replace(",", "")) for cell in cells), strict=True))
        usual = times[measure_launches.USUAL]
        for side, time in times.items():
            more = 1 if side < measure_launches.USUAL else 1.3 * (side / measure_launches.USUAL) ** 2
            assert time <= more * usual, side


def test_pools_of_whole_images_are_so_in_other_sizes() -> None:
    layers = (
        conv("a", 3, 4, 3, stride=(2, 2)),
        Pool("pool", "max", (2, 2), (2, 2)),
        Pool("mean", "average", (4, 4), (1, 1)),
        Flatten("flat"),
        Dense("dense", 4, 2),
    )
    network = Network("n", picture(3, 16, 16), layers, labels(2))
    larger = for_size(network, 33)
    assert larger.shapes()["mean"] == (4, 1, 1) and larger.input.shape == (3, 33, 33)
    assert [layer.window for layer in larger.layers if isinstance(layer, Pool)] == [(2, 2), (8, 8)]
    assert for_size(network, 16).shapes() == network.shapes()


def test_times_have_three_digits_or_more() -> None:
    assert [shown(time) for time in (1.234, 92.303, 146.9, 1918.5)] == ["1.23", "92.3", "147", "1,918"]


def test_a_table_is_written_between_its_marks() -> None:
    page = "a\n<!-- predicted: ways -->\nold\n<!-- end of ways -->\n<!-- predicted: sizes -->\n<!-- end of sizes -->\n"
    written = filled(page, "ways", [("network", "x"), ("n", "1")])
    assert re.search(r"ways -->\n\| network \| x \|\n\| --- \| --- \|\n\| n \| 1 \|\n<!-- end of ways", written)
    assert written.count("predicted: sizes -->\n<!-- end") == 1 and "old" not in written

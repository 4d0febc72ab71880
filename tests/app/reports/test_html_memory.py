"""The chart of SBUF and PSUM usage during a launch."""

from types import SimpleNamespace

import pytest
from report_pages import Page
from trninfer import kernels, simulator
from trninfer.app.reports import html_memory as memory
from trninfer.simulator.timing.memory_use import MemoryUse, TileLife


def run_of(
    points, capacity: int = 1000, owners=(), makespan: float = 100.0, parts=None, least: int = 1000
) -> SimpleNamespace:
    """Return a launch with the given use of SBUF and empty PSUM; in its own order, it needs at least `least` bytes."""
    peak_ns, peak = max(points, key=lambda point: point[1])
    sbuf = MemoryUse(capacity, tuple(points), peak, peak_ns, tuple(owners))
    psum = MemoryUse(100, ((0.0, 0),), 0, 0.0, ())
    return SimpleNamespace(
        memory_use=lambda region: {"sbuf": sbuf, "psum": psum}[region],
        prediction=SimpleNamespace(makespan=makespan), parts=parts, memory=SimpleNamespace(sbuf_bytes=least),
    )  # fmt: skip


def test_the_peak_is_reported_and_drawn_as_steps() -> None:
    page = Page(memory.memory_section(run_of([(0.0, 0), (25.0, 400), (50.0, 100), (75.0, 0)])))
    assert "SBUF: 400 B of 1 kB needed (40.0 %)." in page.text
    assert "The live tiles reach their peak 0.03 us after the first trigger." in page.text
    assert "PSUM is not used." in page.text
    (path,) = page.all("path")
    # 84 of the 1000 units hold the labels; 108 of 130 represent the capacity, since the curve comes close to it.
    assert path["d"] == "M84,108.0 H84.0 V108.0 H313.0 V64.8 H542.0 V97.2 H771.0 V108.0 V108.0 Z"
    assert [line["class"] for line in page.all("line")] == ["axis", "roof lesser"]


def test_the_figure_of_tables_is_the_only_one_on_the_page() -> None:
    points = [(0.0, 400), (75.0, 0)]
    ahead = Page(memory.memory_section(run_of(points, least=100)))
    assert (
        "SBUF: 100 B of 1 kB needed (10.0 %)" in ahead.text and "because loads that are issued early fill" in ahead.text
    )
    assert "400" not in ahead.text and "SBUF over time, of which 100 bytes" in (ahead.all("svg")[0]["aria-label"] or "")
    assert "issued early" not in Page(memory.memory_section(run_of(points, least=400))).text


def test_a_low_curve_is_drawn_large_and_one_that_lasts_reaches_the_end() -> None:
    page = Page(memory.memory_section(run_of([(0.0, 0), (50.0, 333)])))
    (path,) = page.all("path")
    assert (path["d"] or "").endswith("V14.1 H1000 V108.0 Z")  # 1 / 1.15 of the height
    assert [line["class"] for line in page.all("line")] == ["axis"]
    assert len(Page(memory.memory_section(run_of([(0.0, 0), (50.0, 334)]))).all("line")) == 2  # more than a third


def test_tiles_at_the_peak_their_layers_and_what_could_be_spilled() -> None:
    owners = [TileLife(f"tile<{n}>", ("/k/conv.py", 7 + n), 80 - n, 0.0, 5000.0 + n, n, 10.0 * n) for n in range(8)]
    parts = SimpleNamespace(owners=(-1, 0, 1, 1, 1, 1, 1, 1), spans=(("conv", 0, 1), ("fc", 1, 2)))
    page = Page(memory.memory_section(run_of([(0.0, 700)], owners=owners, parts=parts)))
    shown = page.text
    assert "SBUF at its peak, 6 of 8" in shown and "tile<5>" in shown and "tile<6>conv.py" not in shown
    assert "tile<0>launchconv.py:780" in shown and "tile<1>convconv.py:879" in shown and "tile<2>fcconv.py:978" in shown
    # The largest of the tensors that nothing accesses in the meantime.
    assert "No instruction accesses tile<1> for 0.01 us around the peak" in shown and "would free 79 B" in shown
    plain = Page(memory.memory_section(run_of([(0.0, 700)], owners=owners[:1]))).text
    assert "No instruction accesses" not in plain and "layer" not in plain and "SBUF at its peaktile" in plain


def test_thinned_points_keep_the_peaks_and_the_last() -> None:
    points = [(float(n), (n * 7919) % 1000) for n in range(2500)]
    found = memory._thinned(points)
    assert len(found) <= 2 * 1000 and found == sorted(found) and found[-1] == points[-1]
    assert max(found, key=lambda point: point[1])[1] == 999
    for first in range(0, 2500, 3):
        assert max(points[first : first + 3], key=lambda point: point[1]) in found
    assert memory._thinned(points[:1000]) == points[:1000] and memory._thinned(()) == []


@pytest.mark.parametrize("region", ["SBUF", "PSUM"])
def test_a_real_launch(region: str) -> None:
    run = simulator.run(kernels.kernel("transpose"), simulator.TensorSpec((129, 130), "float32"), functional=False)
    page = Page(memory.memory_section(run))
    use = run.memory_use(region.lower())
    (chart,) = [svg for svg in page.all("svg") if (svg["aria-label"] or "").startswith(region)]
    needed = run.memory.sbuf_bytes if region == "SBUF" else use.peak_bytes
    assert chart["aria-label"] == f"{region} over time, of which {needed} bytes of a partition are needed"
    assert use.peak_bytes > 0 and f"{use.owners[0].bytes:,}" in page.text and "transpose.py:" in page.text


def test_lines_of_kernels_by_their_critical_time() -> None:
    run = simulator.run(kernels.kernel("transpose"), simulator.TensorSpec((129, 130), "float32"), functional=False)
    section = memory.line_section([("the launch", run), ("another", SimpleNamespace(lines=[]))])
    assert section is not None
    page = Page(section)
    assert "the launch: " in page.text and "another" not in page.text
    values = [float(cell["data-value"] or 0) for cell in page.all("td") if "data-value" in cell][::3]
    assert values == sorted(values, reverse=True) and len(values) == min(len(run.lines), memory.SHOWN_LINES)
    assert values[0] == run.lines[0].critical_us and run.lines[0].text.replace(" ", "") in page.text.replace(" ", "")
    assert memory.line_section([("another", SimpleNamespace(lines=[]))]) is None

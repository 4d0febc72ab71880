"""The page of `--report` in a browser: drawing, zooming, sorting, dark mode, without JavaScript, and printing."""

import html
import io
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from trninfer import inference
from trninfer.inference import palette
from trninfer.models import load_model
from trninfer.runtime.launch_options import LaunchOptions
from trninfer.runtime.session import Session
from trninfer.runtime.simulated import SimulatedBackend

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
    "--window-size=1240,1900",
)  # fmt: skip

# Inserted before the page's script: records its errors, and replaces animation frames with timers, because a browser
# without a screen may not draw any.
WATCH = """<script>
window.faults = [];
onerror = (message) => { faults.push(String(message)); };
window.requestAnimationFrame = (draw) => setTimeout(draw, 10);
</script>"""
# Inserted after it: waits two frames for pending drawing.
DRIVER = """<script>
const frames = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
const canvas = document.getElementById("timeline");
const rgb = (name) => {
  const probe = document.body.appendChild(document.createElement("i"));
  probe.style.color = `var(--${name})`;
  const found = getComputedStyle(probe).color.match(/\\d+/g).map(Number);
  probe.remove();
  return found;
};
const pixels = (name) => {  // of the timeline that have an engine's colour
  const [r, g, b] = rgb(name);
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let count = 0;
  for (let i = 0; i < data.length; i += 4) {
    if (Math.abs(data[i] - r) + Math.abs(data[i + 1] - g) + Math.abs(data[i + 2] - b) < 6 && data[i + 3] > 250) count++;
  }
  return count;
};
const shown = () => document.getElementById("timeline-range").textContent;
const point = (kind, x, y, more) => {
  const box = canvas.getBoundingClientRect();
  const at = { clientX: box.left + x, clientY: box.top + y, bubbles: true, cancelable: true, ...more };
  canvas.dispatchEvent(new (kind === "wheel" ? WheelEvent : kind === "dblclick" ? MouseEvent : PointerEvent)(kind, at));
};
const column = (n) => [...document.querySelector("table").tBodies[0].rows].map((row) => row.cells[n].textContent);
(async () => {
  const found = {};
  try { await frames(); await (async () => { SCRIPT })(); } catch (error) { faults.push(String(error)); }
  const answer = document.body.appendChild(document.createElement("pre"));
  answer.id = "answer";
  answer.textContent = JSON.stringify({ ...found, faults });
})();
</script></body>"""


def chromium(folder: Path, page: Path, *flags: str) -> bytes:
    """Return the standard output of a new headless Chromium for a page."""
    assert CHROMIUM is not None
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={folder / 'profile'}", *flags, page.as_uri()]
    done = subprocess.run(command, capture_output=True, timeout=300)
    shutil.rmtree(folder / "profile", ignore_errors=True)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the page of a benchmark of the bundled convolutional network."""
    from trninfer.app.main import run

    path = tmp_path_factory.mktemp("page") / "report.html"
    words = (
        "bench",
        "--model",
        "digits-cnn",
        "--batch-size",
        "16",
        "--target",
        "trn2",
        "--backend",
        "sim",
        "--launches",
        "layer",
        "--quiet",
    )
    assert run([*words, "--report", str(path), "--output", str(path.with_suffix(".txt"))]) == 0
    return path.read_text(encoding="utf-8")


@pytest.fixture
def drive(source: str, tmp_path: Path) -> Callable[..., dict]:
    """Run JavaScript in the page that fills in `found`; `faults` contains the errors of the page's own script."""

    def call(script: str, *flags: str) -> dict:
        page = tmp_path / "driven.html"
        driver = DRIVER.replace("SCRIPT", script)
        page.write_text(source.replace("<style>", f"{WATCH}<style>", 1).replace("</body>", driver), encoding="utf-8")
        dump = chromium(tmp_path, page, "--virtual-time-budget=4000", *flags, "--dump-dom").decode()
        answer = re.search(r'<pre id="answer">(.*?)</pre>', dump, re.S)
        assert answer, dump[-2000:]
        found = json.loads(html.unescape(answer[1]))
        assert found["faults"] == []
        return found

    return call


def picture(source: str, folder: Path, *flags: str) -> np.ndarray:
    """Return a screenshot as uint8 [height, width, 3]."""
    page = folder / "page.html"
    page.write_text(source, encoding="utf-8")
    chromium(folder, page, f"--screenshot={folder / 'page.png'}", *flags)
    return np.asarray(Image.open(io.BytesIO((folder / "page.png").read_bytes())).convert("RGB"))


def area(image: np.ndarray, colour: tuple[int, int, int]) -> int:
    """Return the number of pixels of a colour."""
    return int((np.abs(image.astype(int) - colour).sum(axis=2) < 6).sum())


@pytest.mark.slow
def test_the_timeline_is_drawn_and_zooms(drive) -> None:
    found = drive("""
      const names = ["tensor", "vector", "scalar", "gpsimd", "dma-bandwidth"];
      found.engines = Object.fromEntries(names.map((name) => [name, pixels(name)]));
      found.whole = shown();
      document.querySelector("[data-zoom=in]").click(); await frames(); found.closer = shown();
      document.querySelector("[data-zoom=fit]").click(); await frames(); found.fit = shown();
      const press = (key) => canvas.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
      press("+"); await frames(); found.key = shown();
      press("0"); await frames(); found.home = shown();
      point("wheel", 600, 60, { deltaY: -60, ctrlKey: true }); await frames(); found.wheel = shown();
      point("wheel", 600, 60, { deltaY: -60 }); await frames(); found.scroll = shown();
    """)
    assert all(count > 50 for count in found["engines"].values()), found
    assert found["whole"].startswith("0 us to ") and found["fit"] == found["home"] == found["whole"]
    assert found["closer"] == found["key"] != found["whole"]
    assert found["wheel"] != found["whole"] and found["scroll"] == found["wheel"]  # the page scrolls normally


def test_the_timeline_pans_and_jumps_to_layers(drive) -> None:
    found = drive("""
      const layer = document.querySelector("[data-launch='conv2.conv2d']");
      layer.click(); await frames(); found.layer = shown(); found.colours = pixels("tensor");
      point("pointerdown", 600, 60, { pointerId: 1 }); found.grabbed = canvas.classList.contains("dragging");
      point("pointermove", 500, 60, { pointerId: 1 }); point("pointerup", 500, 60, { pointerId: 1 });
      await frames(); found.dragged = shown(); found.released = !canvas.classList.contains("dragging");
      document.querySelector("[data-zoom=fit]").click(); await frames();
      point("dblclick", 130, 35); await frames(); found.twice = shown();
      document.querySelector("[data-launch='conv1.conv2d']").click(); await frames(); found.first = shown();
    """)
    start, end = (float(number) for number in re.findall(r"([\d.]+) us(?: to| of)", found["layer"]))
    dragged, _ = (float(number) for number in re.findall(r"([\d.]+) us(?: to| of)", found["dragged"]))
    assert found["grabbed"] and found["released"] and found["colours"] > 1000
    assert dragged - start == pytest.approx((end - start) * 100 / 1060, rel=0.1)  # a hundred pixels of the track width
    assert found["twice"] == found["first"]


def test_blocks_report_what_they_are(drive) -> None:
    found = drive("""
      const data = JSON.parse(document.getElementById("timeline-data").textContent);
      const track = data.tracks.findIndex((one) => one.kind === "tensor");
      const block = data.tracks[track].blocks[3];
      const x = 108 + ((block[0] + block[1] / 2) / data.total) * (canvas.clientWidth - 108);
      const tip = document.getElementById("tip");
      point("pointermove", x, 24 + 28 + 32 + 13); found.block = tip.hidden ? "" : tip.textContent;
      found.inside = tip.getBoundingClientRect().right <= innerWidth;
      point("pointermove", 130, 35); found.launch = tip.textContent;
      point("pointerleave", 0, 0); found.gone = tip.hidden;
    """)
    assert re.match(r"nc_\w+\nconv1\.conv2d, at [\d.]+ us\n[\d.]+ \S+\n[\d.]+ [kM]?FLOP", found["block"]), found
    assert re.search(r"\nkernels/(\w+/)?\w+\.py:\d+$", found["block"])
    assert found["launch"].startswith("conv1.conv2d\n") and "the launch itself" in found["launch"]
    assert found["inside"] and found["gone"]


def test_tables_sort_by_value(drive) -> None:
    found = drive("""
      const buttons = [...document.querySelectorAll("thead th button")];
      const named = (name) => buttons.find((button) => button.textContent.startsWith(name));
      const rows = () => [...document.querySelector("table").tBodies[0].rows];
      const values = () => rows().map((row) => Number(row.cells[1].dataset.value));
      found.before = column(0);
      named("predicted").click(); found.falling = values();
      found.said = named("predicted").closest("th").getAttribute("aria-sort");
      named("predicted").click(); found.rising = values();
      named("layer").click(); found.names = column(0); found.only = document.querySelectorAll("[aria-sort]").length;
    """)
    assert found["falling"] == sorted(found["falling"], reverse=True) and len(set(found["falling"])) > 2
    assert found["rising"] == sorted(found["falling"]) and found["said"] == "descending"
    assert found["names"] == sorted(found["before"]) and found["only"] == 1


@pytest.mark.slow
def test_page_fits_the_window(drive) -> None:
    for width in (1240, 760, 390):
        found = drive("found.wide = document.documentElement.scrollWidth - innerWidth;", f"--window-size={width},900")
        assert found["wide"] <= 0, width


@pytest.mark.slow
def test_light_and_dark(source, tmp_path) -> None:
    for flags, surfaces, resources in (
        ((), palette.SURFACES_LIGHT, palette.RESOURCES_LIGHT),
        (("--blink-settings=preferredColorScheme=0",), palette.SURFACES_DARK, palette.RESOURCES_DARK),
    ):
        shown = picture(source, tmp_path, *flags)
        assert area(shown, palette.rgb(resources["tensor"])) > 5000
        assert area(shown, palette.rgb(surfaces["page"])) > 100_000
    dark = shown
    assert area(dark, (0xFF, 0xFF, 0xFF)) < 20_000


def test_without_a_script_there_are_tables_and_a_still_picture(source, tmp_path) -> None:
    still = re.sub(r"<script>.*?</script>", "", source, flags=re.S)
    probe = """<script>
      const one = (name) => document.querySelector(name);
      document.body.dataset.found = JSON.stringify([
        getComputedStyle(one(".static")).display, one(".interactive").offsetHeight,
        document.querySelectorAll("tbody tr").length, one(".static svg").getBoundingClientRect().height,
      ]);
    </script></body>"""
    page = tmp_path / "still.html"
    page.write_text(still.replace("</body>", probe), encoding="utf-8")
    dump = chromium(tmp_path, page, "--dump-dom").decode()
    found = re.search(r'data-found="([^"]*)"', dump)
    assert found, dump[-500:]
    display, canvases, rows, height = json.loads(html.unescape(found[1]))
    launches = len(Session(load_model("digits-cnn"), SimulatedBackend("trn2"), launches=LaunchOptions("layer")).rows)
    assert display == "block" and canvases == 0 and rows > launches and height > 100


def test_on_paper(source, tmp_path) -> None:
    page = tmp_path / "page.html"
    page.write_text(source, encoding="utf-8")
    chromium(tmp_path, page, f"--print-to-pdf={tmp_path / 'page.pdf'}", "--no-pdf-header-footer")
    paper = (tmp_path / "page.pdf").read_bytes()
    assert paper.startswith(b"%PDF-") and 1 <= len(re.findall(rb"/Type\s*/Page\b", paper)) <= 5
    # the canvases are hidden: the printed page contains a vector drawing
    assert not re.search(rb"/Subtype\s*/Image", paper)


DROP_PROBE = """<script>
  const box = make("div", undefined, "answer");
  const labels = [{ label: "golden retriever, a dog", probability: 0.9 }];
  box.append(
    show({ label: "7", top: labels, batch_us: 1, batch_size: 1 }, { latency_kind: "predicted", target: "trn2" })
  );
  const item = make("li");
  item.append(make("img"), box);
  find("answers").append(item);
  const track = document.querySelector(".bar div").getBoundingClientRect().width;
  document.body.dataset.found = JSON.stringify([track, document.documentElement.scrollWidth - innerWidth]);
</script></body>"""


@pytest.mark.parametrize(
    "width", [500, pytest.param(820, marks=pytest.mark.slow)]
)  # the window of a headless Chromium is at least 500 pixels wide
def test_bars_of_the_drop_page_can_be_read(width: int, tmp_path: Path) -> None:
    source = (Path(inference.__file__).parent / "serving" / "page.html").read_text(encoding="utf-8")
    page = tmp_path / "drop.html"
    page.write_text(source.replace("/* palette */", palette.css(), 1).replace("</body>", DROP_PROBE), encoding="utf-8")
    dump = chromium(tmp_path, page, "--virtual-time-budget=1000", f"--window-size={width},900", "--dump-dom").decode()
    found = re.search(r'data-found="([^"]*)"', dump)
    assert found, dump[-500:]
    track, wide = json.loads(html.unescape(found[1]))
    assert track >= 100 and wide <= 0


KERNEL = """
import nki, nki.isa as nisa, nki.language as nl, numpy as np

@nki.jit
def doubled(a):
    tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out

doubled(np.ones((128, 512), np.float32))
"""
PROBE = """<script>
  addEventListener("load", () => setTimeout(() => {
    const chart = document.querySelector(".roofline svg .tick");
    document.body.dataset.found = JSON.stringify([
      document.documentElement.scrollWidth - innerWidth,
      chart ? parseFloat(getComputedStyle(chart).fontSize) * chart.getScreenCTM().a : 99,
      [...document.images].map((image) => image.naturalWidth), faults,
      [...document.querySelectorAll("h2")].map((heading) => heading.textContent),
      Math.max(...[...document.querySelectorAll("table")]
        .filter((table) => table.tHead.textContent.includes("predicted us"))
        .map((table) => table.rows[1].cells[1].getBoundingClientRect().right - innerWidth)),
      Math.max(0, ...[...document.querySelectorAll("td.source")].map((cell) => {
        const row = cell.closest("tr");
        return row.lastChild.getBoundingClientRect().right - row.closest(".scroll").getBoundingClientRect().right;
      })),
      document.querySelectorAll("#timeline-section .legend .swatch").length,
    ]);
  }, 300));
</script></body>"""


@pytest.mark.parametrize("width", [*(pytest.param(width, marks=pytest.mark.slow) for width in (1400, 820)), 380])
@pytest.mark.parametrize("command", ["classify", "bench", "simulate"])
def test_every_command_has_the_page_at_every_width(command, width, tmp_path) -> None:
    """Nothing is wider than the window, text is readable, times are visible, and no script fails."""
    from trninfer.app.main import run

    sample = Path(__file__).resolve().parents[3] / "samples" / "7-clean-print.png"
    kernel, path = tmp_path / "kernel.py", tmp_path / "page.html"
    kernel.write_text(KERNEL, encoding="utf-8")
    words = {
        "classify": ("classify", sample, kernel, "--backend", "sim", "--quiet"),
        "bench": ("bench", "--model", "digits-ffnn", "--backend", "sim", "--advise"),
        "simulate": ("simulate", "--report", path, kernel),
    }[command]
    words = words if command == "simulate" else (*words, "--report", path, "--output", tmp_path / "out.txt")
    assert run([str(word) for word in words]) in (0, 2)
    source = path.read_text(encoding="utf-8")
    path.write_text(source.replace("<style>", f"{WATCH}<style>", 1).replace("</body>", PROBE), encoding="utf-8")
    size = f"--window-size={width},900"
    dump = chromium(tmp_path, path, "--virtual-time-budget=3000", size, "--dump-dom").decode()
    found = re.search(r'data-found="([^"]*)"', dump)
    assert found, dump[-500:]
    wide, text, images, faults, headings, time, lines, colours = json.loads(html.unescape(found[1]))
    assert time <= 0 and colours >= 4 and (lines <= 1 or width < 1400), (time, colours, lines)
    assert wide <= 0 and text >= 8 and faults == [], (wide, text, faults)
    assert len(images) == (command == "classify") and all(0 < side <= 56 for side in images)
    expected = {"classify": "Answers", "bench": "What would make it faster", "simulate": "Line by line"}[command]
    assert expected in headings and "Use of SBUF and PSUM" in headings

"""Draw the pictures of docs/ from real runs on the simulator: `python -m trninfer.tools.draw_docs`.

- `terminal.svg`: what `trninfer classify` prints for the samples, 80 columns wide.
- `report.png`: the top of the page that `trninfer bench --report` writes, as rendered by Chromium (use `--browser NAME`
  if it is not called `chromium`). Without a browser, the existing picture is kept and a note is printed.
"""

from __future__ import annotations

import argparse
import html
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
COMMAND = ("classify", "samples/*.png", "--backend", "sim", "--target", "trn2")
REPORT = ("bench", "--model", "digits-cnn", "--batch-size", "16", "--backend", "sim", "--target", "trn2", "--quiet")
WINDOW = (1200, 1500)
COLUMNS = 80
FONTS = "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
NO_BREAK = "\u00a0"  # a space that SVG does not collapse
CHARACTER, LINE, MARGIN = 8.4, 17, 16  # pixels


def run_trninfer(*arguments: str) -> str:
    """Run a command line in the repository and return its standard output. Raises RuntimeError if it fails."""
    environment = {**os.environ, "COLUMNS": str(COLUMNS), "NO_COLOR": "1"}
    command = [sys.executable, "-m", "trninfer", *arguments]
    completed = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    if completed.returncode:
        raise RuntimeError(
            f"trninfer {' '.join(arguments)}: exit status {completed.returncode}: {completed.stderr.strip()}"
        )
    return completed.stdout


def draw_terminal(prompt: str, text: str) -> str:
    """Draw a terminal with a command and its output as SVG, COLUMNS characters wide."""
    lines = [f"$ {prompt}", *text.rstrip().splitlines()]
    width, height = round(COLUMNS * CHARACTER + 2 * MARGIN), len(lines) * LINE + 2 * MARGIN
    rows = "\n".join(_line(line, MARGIN + LINE * number + 12, number == 0) for number, line in enumerate(lines) if line)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">\n'
        f'<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>\n'
        f'<g font-family="{FONTS}" font-size="14" fill="#e6edf3">\n{rows}\n</g>\n</svg>\n'
    )


def _line(text: str, y: int, is_prompt: bool) -> str:
    escaped = html.escape(text, quote=False).replace(" ", NO_BREAK)
    colour = ' fill="#7ee787"' if is_prompt else ""
    return f'<text x="{MARGIN}" y="{y}"{colour}>{escaped}</text>'


def without_host_time(text: str) -> str:
    """Return the output of classify without the line that reports the time of the host machine."""
    return "\n".join(line for line in text.splitlines() if not line.startswith("backend sim:"))


def draw_report(browser: str, picture: Path) -> None:
    """Save a picture of the report page in a browser, in 256 colours. Raise CalledProcessError if that fails."""
    from PIL import Image

    with tempfile.TemporaryDirectory() as folder:
        page, shot = Path(folder) / "report.html", Path(folder) / "report.png"
        run_trninfer(*REPORT, "--report", str(page))
        command = [browser, "--headless", "--no-sandbox", "--hide-scrollbars", "--disable-gpu"]
        size = f"--window-size={WINDOW[0]},{WINDOW[1]}"
        subprocess.run([*command, size, f"--screenshot={shot}", page.as_uri()], check=True, capture_output=True)
        with Image.open(shot) as screenshot:
            screenshot.convert("RGB").quantize(256).save(picture, optimize=True)


def main() -> int:
    """Draw the pictures, and return the exit status, which is 1 if there is no browser."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--browser", default="chromium", help="a Chromium or Chrome, for report.png")
    browser = parser.parse_args().browser
    output = without_host_time(run_trninfer(*COMMAND))
    (DOCS / "terminal.svg").write_text(draw_terminal(f"trninfer {' '.join(COMMAND[:2])}", output), encoding="utf-8")
    executable = shutil.which(browser)
    if executable is None:
        print(f"no {browser} on this machine; docs/report.png stays as it is", file=sys.stderr)
        return 1
    draw_report(executable, DOCS / "report.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())

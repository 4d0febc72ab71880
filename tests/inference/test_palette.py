"""The palette: readable text, and colours of resources that remain distinguishable with colour vision deficiencies."""

import itertools
import re
from pathlib import Path

import numpy as np
import pytest
from trninfer.inference import palette

ROOT = Path(__file__).parents[2]
# Matrices of Machado, Oliveira and Fernandes 2009 (severity 1.0, linear RGB), and the identity for normal vision.
VISIONS = {
    "normal": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
MODES = {
    "light": (palette.SURFACES_LIGHT, palette.RESOURCES_LIGHT),
    "dark": (palette.SURFACES_DARK, palette.RESOURCES_DARK),
    "print": (palette.SURFACES_PRINT, palette.RESOURCES_LIGHT),
}


def oklab(linear: np.ndarray) -> np.ndarray:
    """Convert linear RGB [n, 3] to OKLab (Ottosson 2020)."""
    lms = np.array([
        [0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ])  # fmt: skip
    lab = np.array([
        [0.2104542553, 0.7936177850, -0.0040720468], [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ])  # fmt: skip
    return np.cbrt(np.clip(linear, 0, 1) @ lms.T) @ lab.T


@pytest.mark.parametrize("vision", VISIONS)
@pytest.mark.parametrize("mode", ["light", "dark"])
def test_no_two_resources_look_alike(mode: str, vision: str) -> None:
    """A distance of 0.02 in OKLab is just noticeable."""
    colors = MODES[mode][1]
    encoded = np.array([palette.rgb(color) for color in colors.values()]) / 255
    linear = np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)
    seen = dict(zip(colors, oklab(linear @ np.array(VISIONS[vision]).T)))
    distances = {pair: np.linalg.norm(seen[pair[0]] - seen[pair[1]]) for pair in itertools.combinations(seen, 2)}
    assert min(distances.values()) >= 0.08, min(distances, key=distances.get)


@pytest.mark.parametrize("mode", MODES)
def test_text_and_fills_have_enough_contrast(mode: str) -> None:
    surfaces, resources = MODES[mode]
    for background in ("page", "card"):
        for text in ("ink", "soft", "faint", "good", "bad", "accent"):
            assert palette.contrast(surfaces[text], surfaces[background]) >= 4.5, (text, background)
    for name, fill in resources.items():
        assert palette.contrast(fill, surfaces["card"]) >= 3, name
        assert palette.contrast(palette.text_on(fill), fill) >= 4.5, name
    assert palette.contrast(surfaces["ink"], surfaces["heat"]) >= 4.5


def test_a_series_has_readable_labels_and_starts_again() -> None:
    assert len(set(palette.SERIES)) == len(palette.SERIES) == 8
    assert palette.series_color(11) == palette.SERIES[3]
    assert all(palette.contrast(palette.text_on(color), color) >= 4.5 for color in palette.SERIES)


def test_every_resource_of_a_critical_path_has_a_colour() -> None:
    from trninfer.app.reports.resources import TITLES

    known = {*palette.RESOURCES_LIGHT, *palette.ALIASES}
    assert set(palette.RESOURCES_LIGHT) == set(palette.RESOURCES_DARK) and known >= set(TITLES)
    assert set(TITLES) <= set(palette.TERMINAL_STYLES)
    sheet = palette.css()
    assert all(f".{name} {{ --own:" in sheet for name in known)
    assert sheet.count(f"--dma-issue: {palette.RESOURCES_DARK['dma_issue']}") == 1
    assert "prefers-color-scheme" not in palette.css(dark=False)


@pytest.mark.parametrize(
    "name", ["app/reports/html_report.css", "app/reports/html_report.js", "inference/serving/page.html"]
)
def test_no_page_has_a_colour_of_its_own(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    own = re.findall(r"#[0-9a-fA-F]{3,8}\b(?=[;\s,)\"'])|\bhsla?\(", re.sub(r"#8884|#0000", "", text))
    assert own == []
    variables = set(re.findall(r"var\(--([\w-]+)", text)) - {"own", "on", "share"}
    assert all(f"--{variable}:" in palette.css() for variable in variables), variables

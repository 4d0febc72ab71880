"""All colours of report pages, drawings, annotated pictures and the terminal.

Every colour of a page is a CSS variable of `css()`: `var(--ink)`, `var(--tensor)`. Text colours have a contrast of at
least 4.5:1 on `page` and `card`, and fills have 3:1. Readers with deuteranopia, protanopia or tritanopia can
distinguish any two resources. tests/inference/test_palette.py checks both properties.
"""

from __future__ import annotations

# Resources on a critical path (simulator/timing/critical_path.py). DMA resources share one hue, from dark to light.
RESOURCES_LIGHT = {
    "tensor": "#0d49df",
    "vector": "#1b8d8f",
    "scalar": "#e27910",
    "gpsimd": "#40099e",
    "dma_bandwidth": "#a94006",
    "dma_issue": "#780901",
    "dma_latency": "#b76a50",
    "semaphore": "#ff27a7",
    "launch": "#56585f",
}
RESOURCES_DARK = {
    "tensor": "#076fff",
    "vector": "#00bda6",
    "scalar": "#faac11",
    "gpsimd": "#bd99ff",
    "dma_bandwidth": "#e6732e",
    "dma_issue": "#cb1b09",
    "dma_latency": "#ffd79d",
    "semaphore": "#b436b9",
    "launch": "#636966",
}
# Resources that have the same colour as another resource.
ALIASES = {"other_core": "semaphore", "dma": "dma_bandwidth", "unknown": "launch", "other": "launch"}

# Colours of surfaces (page, card), text (ink, soft, faint, good, bad), lines, and `accent` for links, buttons and bars.
SURFACES_LIGHT = {
    "page": "#f6f6f3",
    "card": "#ffffff",
    "ink": "#16161a",
    "soft": "#55544f",
    "faint": "#666560",
    "line": "#e3e2dc",
    "good": "#0a6b2d",
    "bad": "#b3261e",
    "accent": "#0d49df",
    "heat": "#ff963c",
}
SURFACES_DARK = {
    "page": "#121214",
    "card": "#1b1b1e",
    "ink": "#f3f2ee",
    "soft": "#c0bfb8",
    "faint": "#a09f98",
    "line": "#323235",
    "good": "#4cc27a",
    "bad": "#ff8a85",
    "accent": "#6ea8ff",
    "heat": "#a04a08",
}
SURFACES_PRINT = {**SURFACES_LIGHT, "page": "#ffffff", "ink": "#000000", "line": "#cccccc"}

# Colours of classes in pictures and charts, indexed by class number modulo 8: Okabe and Ito's palette without black.
SERIES = ("#e69f00", "#56b4e9", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7", "#8c8c8c")

# Styles for `rich`, which use the 16 colours of the terminal's theme.
TERMINAL_STYLES = {
    "tensor": "bright_blue",
    "vector": "cyan",
    "scalar": "green",
    "gpsimd": "magenta",
    "dma_bandwidth": "yellow",
    "dma_issue": "yellow",
    "dma_latency": "yellow",
    "semaphore": "bright_magenta",
    "other_core": "bright_magenta",
    "launch": "",
}
TERMINAL_SLOW = "bold red"  # rows that account for most of the time
TERMINAL_MINOR = "dim"  # rows that account for almost none of it

_BLACK, _WHITE = "#000000", "#ffffff"


def series_color(index: int) -> str:
    """Return the colour of a class as `#rrggbb`."""
    return SERIES[index % len(SERIES)]


def shaded_color(index: int) -> str:
    """Return the colour of a class in a class map as `#rrggbb`. There are 24 colours: the colours of `series_color`,
    then lighter and darker shades of them."""
    color = rgb(series_color(index))
    toward, share = ((0, 0.0), (255, 0.55), (0, 0.5))[index // len(SERIES) % 3]
    return "#" + "".join(f"{round(part + (toward - part) * share):02x}" for part in color)


def text_on(background: str) -> str:
    """Return black or white, whichever has the higher contrast on a `#rrggbb` background."""
    return max((_BLACK, _WHITE), key=lambda color: contrast(color, background))


def rgb(color: str) -> tuple[int, int, int]:
    """Return `#rrggbb` as three bytes."""
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


def contrast(first: str, second: str) -> float:
    """Return the contrast ratio of two colours, from 1 to 21, as defined by WCAG 2.2."""
    low, high = sorted((_luminance(first), _luminance(second)))
    return (high + 0.05) / (low + 0.05)


def _luminance(color: str) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in rgb(color))]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def css(*, dark: bool = True) -> str:
    """Return the style sheet of all colours: variables, and a class for each resource that sets `--own` and `--on`.

    `--own` is the fill colour of the resource, and `--on` is the colour of text on it. If `dark` is False, only the
    light colours are included.
    """
    names = {**{name: name for name in RESOURCES_LIGHT}, **ALIASES}
    classes = "\n".join(
        f".{name} {{ --own: var(--{_name(of)}); --on: var(--on-{_name(of)}); }}" for name, of in names.items()
    )
    parts = [f":root {{ {_variables(SURFACES_LIGHT, RESOURCES_LIGHT, 'rgb(0 0 0 / 5%)')} }}"]
    if dark:
        inside = _variables(SURFACES_DARK, RESOURCES_DARK, "rgb(255 255 255 / 6%)")
        parts.append(f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {inside} }} }}")
    parts.append(f"@media print {{ :root {{ {_variables(SURFACES_PRINT, RESOURCES_LIGHT, 'transparent')} }} }}")
    return "\n".join((*parts, classes, ""))


def _variables(surfaces: dict[str, str], resources: dict[str, str], shade: str) -> str:
    values = {**surfaces, **resources}
    values |= {f"on_{name}": text_on(color) for name, color in (*resources.items(), ("accent", surfaces["accent"]))}
    return " ".join(f"--{_name(name)}: {value};" for name, value in {**values, "shade": shade}.items())


def _name(resource: str) -> str:
    return resource.replace("_", "-")

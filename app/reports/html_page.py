"""The HTML page of `--report`: its sections in order, with the style sheet and script from the files in this folder."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib import metadata, resources
from typing import TYPE_CHECKING, Any

from ...inference import palette
from ...version import __version__
from . import html_tables as tables
from .html_boxes import box_score_section, boxes_section
from .html_charts import bound_legend, roofline, time_bar
from .html_markup import Markup, element, fragment, microseconds, percent, quantity
from .html_memory import line_section, memory_section
from .html_score import score_section
from .html_timeline import collect, timeline_section
from .regression import verdict
from .report import plus_minus
from .score_table import score_line

if TYPE_CHECKING:
    from ...runtime.verify import Verification
    from .regression import BaselineComparison
    from .report import Report

# The page is not permitted to load resources, so even a displayed name that is interpreted as markup cannot cause a
# request.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"

ONE_LAUNCH = "run_network"  # kernel name of a row that represents a single launch of all layers

_TERMS = (
    ("predicted", "computed by the simulator from a model of the NeuronCore's engines, not measured"),
    ("measured", "on a NeuronCore; host round trip: the wall clock around a call, from host memory to host memory"),
    ("share", "of the time of all rows of the table"),
    ("operations", "of the model, computed from shapes: 2 for a multiply-accumulate, 1 for an elementwise operation"),
    ("HBM traffic", "bytes read from and written to the memory of the device"),
)
_PREDICTED_TERMS = (
    ("critical path", "the resource that determined each nanosecond, traced back from the end along the dependencies"),
    (
        "time of a layer",
        "time of the row's own instructions on the critical path; 0 if all of them overlap with other instructions",
    ),
    ("bound by", "the resource with the largest share of the row's critical time"),
    ("MFU", "model FLOPs as a share of the PE array's peak in 16 bits, for every dtype"),
    ("HFU", "the same for all FLOPs executed, including padding, warm-up and transposes"),
    (
        "of a row",
        "MFU, HFU and bandwidth are relative to the time during which the row's own instructions and DMAs run",
    ),
)


def render_page(report: Report, timelines: Sequence[tuple[str, Any]], comparison: BaselineComparison | None) -> str:
    """Return the complete page; see `html.write_report`."""
    name = report.model or " and ".join(table.title.partition(":")[0] for table in report.tables)
    title = f"trninfer {report.command}: {name}"
    sections = [
        _header(report, name),
        _tiles(report),
        _checks(report, comparison),
        score_section(report),
        box_score_section(report),
        _answers(report),
        element("section", tables.comparison_table(comparison)) if comparison is not None else None,
        _layers(report),
        element("section", tables.worker_table(report.cores, _label(report))) if report.cores is not None else None,
        _timeline(report, timelines),
        line_section(timelines) if _is_of_kernels(report, timelines) else None,
        _memory(timelines),
        _roofline(report),
        _advice(report),
        _suite(report),
        _sweep(report),
        _footer(report),
    ]
    head = fragment(
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", Markup(palette.css()), _asset("html_report.css")),
    )
    script = element("script", _asset("html_report.js"))
    page = element("html", element("head", head), element("body", element("main", sections), script), lang="en")
    return f"<!DOCTYPE html>\n{page}\n"


def _answers(report: Report) -> Markup | None:
    if not report.predictions:
        return None
    if report.command == "detect":
        return boxes_section(report)
    return element("section", element("h2", "Answers"), tables.answer_table(report))


def _asset(name: str) -> Markup:
    return Markup(resources.files(__package__).joinpath(name).read_text(encoding="utf-8"))


def _header(report: Report, name: str) -> Markup:
    assumed = f"assumed at trninfer import: {'; '.join(report.assumed)}" if report.assumed else None
    facts = [
        element("li", f"{_label(report)} times", class_=f"kind {report.latency_kind}"),
        element("li", report.chip.replace(",", ", ")),
        element("li", report.dtype.replace(",", ", ")) if report.dtype else None,
        element("li", f"backend {report.backend}"),
    ]
    return element(
        "header",
        element("p", f"trninfer {report.command}", class_="eyebrow"),
        element("h1", name),
        element("ul", facts, class_="facts"),
        [element("p", note, class_="note") for note in (report.choice_note, report.latency_note, assumed) if note],
    )


def _label(report: Report) -> str:
    """Return the kind of the times: "predicted" or "measured, host round trip"."""
    return report.latency_label or report.latency_kind


def _tiles(report: Report) -> Markup | None:
    """Return tiles with the most important figures."""
    layers = [layer for table in report.tables for layer in table.layers]
    if not layers:
        return None
    total = report.total_us
    tiles = [
        (f"{microseconds(total)} us", f"{_label(report)}, in all{plus_minus(report.latency_error)}"),
        _rows_tile(report),
    ]
    if report.cores is not None:
        elapsed = f"{microseconds(report.cores.elapsed_us)} us"
        tiles.append((elapsed, f"elapsed on the busiest of {report.cores.count} cores"))
    mfu, hfu = report.utilization
    if mfu is not None and hfu is not None:
        tiles.append((percent(mfu), f"MFU; HFU {percent(hfu)}"))
    moved = sum(layer.hbm_bytes for layer in layers)
    if moved and total:
        tiles.append((quantity(moved, "B"), f"HBM traffic, {quantity(moved / total * 1e6, 'B/s')}"))
    longest = max(layers, key=lambda layer: layer.latency_us)
    if len(layers) > 1 and total:
        tiles.append((longest.name, f"longest layer, {percent(longest.latency_us / total)}"))
    items = [element("li", element("b", value), element("span", label)) for value, label in tiles]
    return element("ul", items, class_="tiles")


def _rows_tile(report: Report) -> tuple[str, str]:
    """Return the number of rows, and the unit that a row represents."""
    kernels = [row.kernel for table in report.tables for row in table.layers]
    count = len(kernels) - kernels.count(ONE_LAUNCH)
    if ONE_LAUNCH in kernels:
        launches = "one launch" if kernels.count(ONE_LAUNCH) == 1 else f"{kernels.count(ONE_LAUNCH)} launches"
        return (str(count), f"layers in {launches}") if count else (launches, "of a whole network")
    return (str(count), "kernels, each in its own launch" if count > 1 else "kernel, one launch")


def _checks(report: Report, comparison: BaselineComparison | None) -> Markup | None:
    """Return the results of the checks, and the errors."""
    lines: list[Markup] = []

    def line(passed: bool, text: str) -> None:
        mark = "\u2713 " if passed else "\u2717 "
        lines.append(element("li", mark, text, class_="passed" if passed else "failed"))

    if report.verify is not None:
        line(report.verify.passed, _verify_line(report.verify))
    if report.none is not None and report.none.count:
        lines.append(element("li", f"not a class of the network: {report.none.count} of {report.none.total}"))
    if report.score is not None and report.fail_under is None:
        lines.append(element("li", score_line(report.score)))
    elif report.score is not None:
        line(not report.is_below, f"{score_line(report.score)} (--fail-under {report.fail_under:g})")
    if comparison is not None:
        line(comparison.passed, verdict(comparison))
    for problem in report.errors:
        line(False, str(problem))
    return element("ul", lines, class_="checks") if lines else None


def _verify_line(check: Verification) -> str:
    return (
        f"verify {'passed' if check.passed else 'FAILED'}: largest error {check.max_abs_error:.2g} "
        f"(tolerance {check.tolerance:.2g}), {check.disagreements} disagreements, {check.near_ties} near-ties"
    )


def _layers(report: Report) -> Markup | None:
    layers = [layer for table in report.tables for layer in table.layers]
    if not layers:
        return None
    return fragment(
        element(
            "section",
            element("h2", "Where the time goes"),
            [time_bar(table) for table in report.tables],
            bound_legend(layers),
        ),
        element(
            "section",
            element("h2", "Launch by launch" if report.command == "simulate" else "Layer by layer"),
            [tables.layer_table(table, _label(report)) for table in report.tables],
        ),
    )


def _timeline(report: Report, timelines: Sequence[tuple[str, Any]]) -> Markup | None:
    if not timelines:
        return None
    launches = "One launch"
    if len(timelines) > 1:
        first = "" if report.command == "simulate" else "The first batch, "
        launches = f"{first}{len(timelines)} consecutive launches"
    note = f"{launches}, {report.latency_kind}. The grey line under a name is the time of the launch itself."
    return timeline_section(collect(timelines), note, report.latency_kind)


def _is_of_kernels(report: Report, timelines: Sequence[tuple[str, Any]]) -> bool:
    """Return True if the page shows individual kernels, whose source lines are relevant to the reader."""
    return report.command == "simulate" or (report.model is None and len(timelines) == 1)


def _memory(timelines: Sequence[tuple[str, Any]]) -> Markup | None:
    """Return the memory section of the longest launch."""
    runs = [run for _, run in timelines if hasattr(run, "memory_use") and run.program]
    return memory_section(max(runs, key=lambda run: run.latency_us)) if runs else None


def _roofline(report: Report) -> Markup | None:
    if not any(table.layers for table in report.tables):
        return None
    chart = roofline(report.tables, report.target, report.dtype, _label(report))
    return element("section", element("h2", "Roofline"), chart)


def _suite(report: Report) -> Markup | None:
    if report.suite is None:
        return None
    return element("section", tables.suite_table(report.model or "", report.suite))


def _advice(report: Report) -> Markup | None:
    if report.advice is None:
        return None
    parts = [
        fragment(
            element("ol", [element("li", advice.sentence()) for advice in network.advice], class_="advice"),
            tables.what_if_table(network),
        )
        for network in report.advice
    ]
    return element("section", element("h2", "What would make it faster"), parts)


def _sweep(report: Report) -> Markup | None:
    if report.sweep is None:
        return None
    from .sweep_table import best_lines

    lines = [element("li", line.removeprefix("* ")) for line in best_lines(report)]
    return element(
        "section",
        element("h2", "Batches, targets and dtypes"),
        tables.sweep_table(report),
        element("ul", lines, class_="checks"),
    )


def _footer(report: Report) -> Markup:
    meanings = _TERMS if report.latency_kind == "measured" else (*_TERMS, *_PREDICTED_TERMS)
    terms = [fragment(element("dt", term), element("dd", meaning)) for term, meaning in meanings]
    versions = f"trninfer {__version__}, Python {platform.python_version()}, NumPy {metadata.version('numpy')}"
    if report.backend == "neuron":
        from ...runtime.neuron.environment import neuron_packages

        versions += "".join(f", {package.name} {package.version}" for package in neuron_packages() if package.version)
    spent = f"{report.host_seconds:.2f} s on {platform.system()} {platform.machine()}"
    return element("footer", element("dl", terms), element("p", f"{versions}. This run took {spent}."))

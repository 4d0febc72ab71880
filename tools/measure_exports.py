"""Test networks as exported by their own packages, and write the table of results in docs/networks.md.

`python -m trninfer.tools.measure_exports RESULTS [--only TEXT] [--sizes 96,160,224] [--exporter NAME] [--page]` exports
each network of real_exports.py with random weights, imports it and compares it with ONNX Runtime, then plans one
picture in bfloat16 on trn2 and predicts its time. Each network is tested in a separate process. Results are appended to
the file RESULTS, one line of JSON each; networks that already have a result are skipped. `--page` writes the table of
docs/networks.md from the file and, for networks that are not in the file, from the existing rows of the page.
"""

from __future__ import annotations

import argparse
import datetime
import json
import multiprocessing
import os
import re
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .real_exports import Export, all_exports, load_packages

PAGE = Path(__file__).resolve().parent.parent / "docs" / "networks.md"
TARGET, DTYPE = "trn2", "bfloat16"
_BLOCK = re.compile(r"(<!-- measured: exports -->\n).*?(<!-- end of exports -->)", re.S)
_LONGEST = 160  # maximum length of a reason in the table, in characters
HEADINGS = (
    "network",
    "size",
    "exporter",
    "differs by",
    "planned in",
    "predicted",
    "times its floor",
    "otherwise",
    "date",
)
OPTIONAL = 2  # headings of columns that may be missing at the end of a row


def main() -> None:
    """Test the requested networks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--only", default="", metavar="TEXT", help="select networks by family/name/size/exporter")
    parser.add_argument("--sizes", default="96,160,224", help="sizes of the pictures")
    parser.add_argument("--exporter", default="", help="only networks exported by this exporter")
    parser.add_argument("--seconds", type=int, default=120, help="limit on the processor time of a network")
    parser.add_argument("--page", action="store_true", help="write the table of docs/networks.md")
    arguments = parser.parse_args()
    known = _read(arguments.results)
    exports = [
        export
        for export in all_exports(tuple(map(int, arguments.sizes.split(","))))
        if arguments.only in export.key
        and arguments.exporter in ("", export.exporter)
        and not (arguments.page or export.key in known)
    ]
    load_packages(exports)
    for export in exports:
        known[export.key] = result = _in_a_process(export, arguments.seconds)
        result["date"] = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
        with arguments.results.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"key": export.key, **result}) + "\n")
        sys.stderr.write(f"{export.key}: {result}\n")
    if arguments.page:
        page = PAGE.read_text(encoding="utf-8")
        results = {**rows_of(page), **known}
        PAGE.write_text(_BLOCK.sub(lambda m: m[1] + table_of(results) + m[2], page), encoding="utf-8")


def try_export(export: Export) -> dict[str, Any]:
    """Export, import and predict a network. Return the figures for its row, or the reason for failure."""
    from ..models.errors import ModelError
    from ..models.files import Model
    from ..models.importing import import_network
    from ..runtime.backend import KernelError
    from ..runtime.floor import floor_of
    from ..runtime.session import Session
    from ..runtime.simulated import open_simulated_backend

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.onnx"
        try:
            export.write(path)
        except Exception as error:  # any exception of the package may occur
            return {"not_exported": _one_line(error)}
        try:
            imported = import_network(path)
        except ModelError as error:
            return {"refused": _one_line(error).replace(str(path), "").removeprefix(": ")}
    comparison = imported.comparison
    result: dict[str, Any] = {"layers": len(imported.network.layers)}
    if comparison.skipped:
        result["not_compared"] = comparison.skipped
    else:
        result["differs_by"] = comparison.max_abs_error / max(comparison.largest_output, 1e-30)
    if not comparison.passed:
        return {**result, "refused": "differs from ONNX Runtime"}
    began = time.process_time()
    try:
        session = Session(Model(imported.network, imported.tensors, {}), open_simulated_backend(TARGET), DTYPE, 1)
        predicted = session.time(1).total_us
    except KernelError as error:
        return {**result, "refused": _one_line(error)}
    result["planned_s"] = time.process_time() - began
    result["predicted_us"] = predicted
    result["times_floor"] = predicted / floor_of(imported.network, DTYPE, 1, TARGET).latency_us
    return result if session.launches_note is None else {**result, "note": session.launches_note}


def table_of(results: dict[str, dict[str, Any]]) -> str:
    """Return the counts for each family, and one row for each network."""
    newest = max((result.get("date", "") for result in results.values()), default="")
    newest_rows = f"rows of {newest or 'a date'} | their median"
    heading = f"| family | tried | accepted | in one launch | median times floor | {newest_rows} |"
    lines = [heading, "| --- | --- | --- | --- | --- | --- | --- |"]
    families: dict[str, list[dict[str, Any]]] = {}
    for key, result in results.items():
        if "not_exported" not in result:
            families.setdefault(key.split("/")[0], []).append(result)
    if any(family.startswith("timm") for family in families):
        families["timm, all"] = [
            each for family, members in families.items() if family.startswith("timm") for each in members
        ]
    for family, members in families.items():
        successes = [result for result in members if "times_floor" in result]
        new = [result for result in successes if newest and result.get("date") == newest]
        together = sum("times_floor" in each and not each.get("note", "").startswith("layer") for each in members)
        counts = f"{len(members)} | {len(successes)} | {together} | {_median(successes)} | {len(new)} | {_median(new)}"
        lines.append(f"| {family} | {counts} |")
    lines += ["", _row(HEADINGS), _row(["---"] * len(HEADINGS))]
    lines += [_row(_cells(key, result)) for key, result in results.items()]
    return "\n".join(lines) + "\n"


def rows_of(page: str) -> dict[str, dict[str, Any]]:
    """Return the results in the table of a page, keyed by network. Networks that no longer exist are omitted."""
    block = _BLOCK.search(page)
    rows = [line.strip("| ").split(" | ") for line in block[0].splitlines() if line.startswith("| ")] if block else []
    cells = [
        [cell.strip() for cell in "|".join(row).split("|")] for row in rows if len(row) >= len(HEADINGS) - OPTIONAL
    ]
    sizes = tuple(sorted({int(size) for _, size, *_ in cells if size.isdigit()}))
    keys: dict[tuple[str, int, str], list[str]] = {}
    for export in all_exports(sizes):  # in the order of the page; two packages may have networks with the same name
        keys.setdefault((export.name, export.size, export.exporter), []).append(export.key)
    results = {}
    for name, size, exporter, differs, *numbers in cells:
        left = keys.get((name, int(size) if size.isdigit() else 0, exporter))
        if left:
            results[left.pop(0)] = _result(differs, *numbers)
    return results


def _median(results: list[dict[str, Any]]) -> str:
    """Return the median of the times relative to the floor, or "" if there are none."""
    ratios = sorted(result["times_floor"] for result in results)
    return f"{ratios[len(ratios) // 2]:.1f}" if ratios else ""


def _result(
    differs: str, planned: str, predicted: str, floors: str, otherwise: str = "", date: str = ""
) -> dict[str, Any]:
    """Return the result that the cells of a row contain."""
    result: dict[str, Any] = {"date": date} if date else {}
    if differs:
        result["differs_by"] = float(differs)
    if predicted:
        result |= {"planned_s": float(planned.removesuffix(" s")), "times_floor": float(floors)}
        result["predicted_us"] = float(predicted.removesuffix(" us").replace(",", ""))
    for kind in ("not_exported", "refused"):
        reasons, named, reason = otherwise.partition(f"{kind.replace('_', ' ')}: ")
        if named and not reasons:
            return {**result, kind: reason}
    return {**result, "note": otherwise} if otherwise else result


def _cells(key: str, result: dict[str, Any]) -> list[str]:
    _, name, size, exporter = key.split("/")
    differs = f"{result['differs_by']:.0e}" if "differs_by" in result else ""
    numbers = ["", "", ""]
    if "predicted_us" in result:
        numbers = [
            f"{result['planned_s']:.1f} s",
            f"{result['predicted_us']:,.0f} us",
            f"{result['times_floor']:.1f}",
        ]
    reasons = [f"{kind.replace('_', ' ')}: {result[kind]}" for kind in ("not_exported", "refused") if kind in result]
    reasons += [result[kind] for kind in ("note", "not_compared") if kind in result]
    reason = "; ".join(reasons).replace("|", "/")
    short = reason if len(reason) <= _LONGEST else reason[: _LONGEST - 3] + "..."
    return [name, size if size != "0" else "", exporter, differs, *numbers, short, result.get("date", "")]


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _in_a_process(export: Export, seconds: int) -> dict[str, Any]:
    """Test an export in a fork of this process, whose packages are already loaded, with a limit on processor time."""
    receiving, sending = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=_try_and_send, args=(export, seconds, sending))
    child.start()
    sending.close()
    try:
        result: dict[str, Any] = receiving.recv()
    except EOFError:
        child.join()
        is_late = child.exitcode in (-signal.SIGXCPU, -signal.SIGKILL)
        return {"refused": f"takes more than {seconds} s" if is_late else f"ends with status {child.exitcode}"}
    child.join()
    return result


def _try_and_send(export: Export, seconds: int, sending: Any) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
        sending.send(try_export(export))


def _read(path: Path) -> dict[str, dict[str, Any]]:
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    records = (json.loads(line) for line in lines)
    return {record.pop("key"): record for record in records}


def _one_line(error: Exception) -> str:
    return " ".join(f"{error}".split())[:300] or type(error).__name__


if __name__ == "__main__":
    main()

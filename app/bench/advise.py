"""`bench --advise`: report which changes would make a network faster, and the gain from faster hardware."""

from __future__ import annotations

from ...models.bundled import bundled_models
from ...runtime.advice import Adviser, Setting
from ...runtime.launch_options import LaunchOptions
from ..backends import load
from ..errors import UsageError
from ..options import RunOptions
from ..reports.report import NetworkAdvice, Report
from .subject import BenchSubject


def advise(report: Report, subject: BenchSubject, options: RunOptions) -> None:
    """Add what-if results and advice for each network to the report. Raises UsageError if times are measured."""
    if report.latency_kind != "predicted":
        raise UsageError("--advise requires predictions; add --backend sim")
    names = [subject.model] if subject.model is not None else [bundled.name for bundled in bundled_models()]
    launches = LaunchOptions(options.launches, options.instructions, options.convolutions)
    setting = Setting(options.dtype, options.batch_size, launches)
    report.advice = []
    for name in names:
        model = load(name, quiet=True)
        adviser = Adviser(model, report.target, setting)
        total = adviser.result.total_us
        report.advice.append(NetworkAdvice(model.network.name, total, adviser.what_ifs(), adviser.advice()))

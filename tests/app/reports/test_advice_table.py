"""The table of advice in a terminal."""

from trninfer.app.reports.advice_table import print_advice
from trninfer.app.reports.console import to_text
from trninfer.app.reports.report import NetworkAdvice
from trninfer.runtime.advice import Advice, WhatIf


def lines_of(*networks: NetworkAdvice) -> list[str]:
    return to_text(lambda console: print_advice(console, networks), None).splitlines()


def test_each_resource_with_what_it_would_save_and_numbered_advice() -> None:
    what_ifs = [WhatIf("dma_bandwidth", 8.0, 16.0, 4.0), WhatIf("tensor", 1.5, 20.1, -0.1)]
    advice = [
        Advice("conv[1]", "many bytes", "a batch of 2", "--batch-size 2", 20.0, 12.34, "computed"),
        Advice(None, "one core works", "2 cores", None, 20.0, 10.0, "estimated"),
    ]
    lines = lines_of(NetworkAdvice("net\x1b", 20.0, what_ifs, advice))
    assert lines[0] == r"net\x1b: with a resource twice as fast"
    assert [line.split() for line in lines[3:5]] == [
        ["DMA", "bandwidth", "8.00", "16.00", "20.0", "%"], ["tensor", "1.50", "20.10", "-0.5", "%"],
    ]  # fmt: skip
    assert lines[5:8] == [
        r"net\x1b: advice",
        "  1. conv[1]: many bytes; with a batch of 2: 12.3 us per input instead of 20 (computed)",
        "  2. one core works; with 2 cores: 10 us per input instead of 20 (estimated)",
    ]


def test_networks_without_advice_or_time() -> None:
    lines = lines_of(NetworkAdvice("a", 0.0, [WhatIf("launch", 0.0, 0.0, 0.0)], []), NetworkAdvice("b", 1.0, [], []))
    assert lines[3].split() == ["launch", "0.00", "0.00", "0.0", "%"]
    assert (
        lines.count("  no change that was tried saves 3 % or more") == 2 and "b: with a resource twice as fast" in lines
    )
    assert lines_of() == []

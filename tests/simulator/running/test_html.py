"""Launches as HTML: the numbers, one row per engine, and escaped names."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest
from trninfer import kernels, simulator
from trninfer.simulator import TensorSpec
from trninfer.simulator.running.html import MOST_QUEUES, WIDTH


def walk(size=512):
    shapes = [TensorSpec((size, size), "bfloat16")] * 2
    return simulator.run(kernels.matmul_tiled, *shapes, functional=False)


@pytest.mark.parametrize("size", [1, 129, 512])
def test_a_run_shows_its_figures_and_a_row_for_each_engine(size):
    run = walk(size)
    shown = run._repr_html_()
    ElementTree.fromstring(shown)  # well formed
    assert f"{run.latency_us:.1f} us predicted, bound by {run.bound_by}" in shown
    names = {event.engine for event in run.timeline}
    for name, title in (("tensor", "Tensor Engine"), ("scalar", "Scalar Engine"), ("dma load 0", "DMA load 0")):
        assert (f">{title}</text>" in shown) == (name in names)
    assert f"DMA load {MOST_QUEUES}<" not in shown
    for x, width in re.findall(r'<rect x="([\d.]+)" y="\d+" width="([\d.]+)"', shown):
        assert float(x) + float(width) <= WIDTH + 1


def test_names_are_text_and_lines_are_reported():
    run = walk(129)
    run.name = "<script>"
    text = run._repr_html_()
    assert "<script>" not in text and "&lt;script&gt;" in text
    assert "critical path: launch 10.20 us" in text and text.count("<li>") == min(5, len(run.lines))
    assert f">{run.latency_us:.1f} us</text>" in text  # the axis ends with the launch


def test_a_run_of_nothing_is_shown_too():
    def nothing(a):
        return a

    assert "0 instructions" in simulator.run(nothing, np.ones((2, 2), np.float32))._repr_html_()

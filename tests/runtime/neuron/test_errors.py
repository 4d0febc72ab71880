"""The line of a long message that is shown to the user."""

from __future__ import annotations

import pytest
from trninfer.runtime.neuron.errors import first_useful_line, useful_line

TRACEBACK = """warning: something
Traceback (most recent call last):
  File "x.py", line 1, in <module>
    raise ValueError("an error in the source line")
ValueError: too large
"""


@pytest.mark.parametrize(
    ("texts", "line"),
    [
        (("one\ntwo",), "one"),
        (("one\nan Error:\t two\nthree error",), "an Error: two"),
        (("error first\n[NCC_EBVF030] limit",), "[NCC_EBVF030] limit"),
        (("shape is wrong", "printed error"), "shape is wrong"),
        (("shape is wrong", "printed [NCC_EARG001] lnc"), "printed [NCC_EARG001] lnc"),
        (("", "\n\n", "KeyError"), "KeyError"),
        ((TRACEBACK,), "ValueError: too large"),
        (("", " "), "no message"),
        (("x" * 1000,), "x" * 297 + "..."),
    ],
)
def test_first_useful_line(texts, line) -> None:
    assert first_useful_line(*texts) == line


def test_a_status_of_the_runtime_takes_precedence() -> None:
    assert useful_line(RuntimeError("error\nNRT Error NRT_TIMEOUT(5): slow")) == "NRT Error NRT_TIMEOUT(5): slow"
    assert useful_line(RuntimeError()) == "RuntimeError"

"""The passes of a network, printed as text."""

from trninfer.app.reports.lowering import render_lowering
from trninfer.app.reports.report import NetworkLowering
from trninfer.lowering.show import ShownLaunch, ShownPass


def test_a_launch_is_reported_pass_by_pass() -> None:
    passes = (ShownPass("layers", ("   0  A",)), ShownPass("first", None), ShownPass("second", ("   0  B",)))
    choices = (
        {"kind": "pack_rows", "node": None, "value": True},
        {"kind": "copies", "node": [4, "tail"], "value": True},
        {"kind": "form", "node": [7], "value": ["pairs", 12288]},
        {"kind": "stage", "node": None, "value": 1},
    )
    launch = ShownLaunch("b", "run_network", 3, 1.25, 7, choices, passes, ("x",))
    text = render_lowering([NetworkLowering("n", "float32", 3, "trn2", [launch])])
    assert text.splitlines() == [
        "n: float32, a batch of 3, trn2",
        "",
        "launch 1 of 1: b, kernel run_network, inputs 3, predicted 1.2 us plus the launch overhead, 7 instructions",
        'decisions: pack_rows copies[4.tail] form[7]=["pairs", 12288] stage=1',
        "layers:",
        "   0  A",
        "first: no change",
        "second:",
        "   0  B",
        "schedule:",
        "      x",
        "",
    ]


def test_names_from_a_file_cannot_trick_a_terminal() -> None:
    kernel = ShownLaunch("a\x1b[2J\n", "matmul", 1)
    text = render_lowering([NetworkLowering("n", "float32", 1, "trn2", [kernel, kernel])])
    assert "\x1b" not in text
    assert text.splitlines()[2:] == [
        r"launch 1 of 2: a\x1b[2J\n, kernel matmul, inputs 1",
        r"launch 2 of 2: a\x1b[2J\n, kernel matmul, inputs 1",
        "",
    ]


def test_networks_without_an_answer_have_no_text() -> None:
    assert render_lowering([]) == ""

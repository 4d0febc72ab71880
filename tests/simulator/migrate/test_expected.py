"""Comparisons that a file asserts to fail."""

import ast

import pytest

pytest.importorskip("libcst")
from trninfer.simulator.migrate.expected import different_lines, undecided_lines

SAME = "np.allclose(a, b)"


@pytest.mark.parametrize(
    "text",
    [
        f"self.assertFalse({SAME})",
        f"assert not {SAME}",
        f"assert not ({SAME} or np.allclose(a, c))",
        f"assert {SAME} is False",
        f"assert {SAME} == False, 'changed'",
        f"assert {SAME} != True",
        f"self.assertEqual({SAME}, False)",
        f"self.assertIsNot({SAME}, True)",
        f"same = {SAME}\nassert not same",
        f"def test():\n  same = {SAME}\n  self.assertFalse(same)",
        "with self.assertRaises(AssertionError):\n  np.testing.assert_allclose(a, b)",
        "with pytest.raises(AssertionError):\n  np.testing.assert_allclose(a, b)",
        f"if {SAME}:\n  raise ValueError('nothing was written')",
    ],
)  # fmt: skip
def test_a_comparison_that_must_fail(text):
    line = next(number for number, line in enumerate(text.splitlines(), 1) if "allclose" in line)
    assert line in different_lines(ast.parse(text))


@pytest.mark.parametrize(
    "text",
    [
        f"self.assertTrue({SAME})",
        f"assert {SAME}",
        f"assert not not {SAME}",
        f"assert {SAME} is True",
        f"assert {SAME} != False",
        f"self.assertEqual({SAME}, True)",
        f"self.assertFalse(not {SAME})",
        f"if not {SAME}:\n  raise ValueError",
        f"if {SAME}:\n  print('passed')",
        f"same = {SAME}\nassert same",
        f"same = {SAME}\ndef test(same):\n  assert not same",
        f"print({SAME})",
    ],
)
def test_a_comparison_that_must_hold(text):
    assert 1 not in different_lines(ast.parse(text))


@pytest.mark.parametrize(
    "text",
    [
        f"assert not ({SAME} and np.allclose(a, c))",
        f"assert {SAME} or np.allclose(a, c)",
        f"if {SAME} and np.allclose(a, c):\n  raise ValueError",
    ],
)
def test_comparisons_of_which_one_is_enough(text):
    tree = ast.parse(text)
    assert 1 in undecided_lines(tree) and 1 not in different_lines(tree)


def test_comparisons_that_must_all_hold_are_decided():
    assert not undecided_lines(ast.parse(f"assert {SAME} and np.allclose(a, c)"))

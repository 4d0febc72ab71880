"""The worst classes of a score, for all kinds of scores."""

from trninfer.app.reports.columns import worst


def test_few_classes_keep_their_order_and_many_are_sorted_from_the_lowest() -> None:
    assert worst([3, 1, 2], lambda each: each, "IoU", 3) == ([3, 1, 2], "")
    assert worst([3, 1, 2], lambda each: each, "IoU", 2) == ([1, 2], "the 2 of 3 classes with the lowest IoU")

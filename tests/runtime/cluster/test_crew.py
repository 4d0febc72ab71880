"""What a crew says of a worker's end. Crews at work: test_shared_session.py."""

from __future__ import annotations

import pytest
from trninfer.runtime.cluster.crew import _reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Task was killed due to the node running low on memory.\nMemory on the node was 7 GB", "Task was killed due"),
        ("\n  The actor died unexpectedly before finishing this task.\n\tclass_name: Worker", "The actor died unexp"),
        ("\tclass_name: Worker\n\tactor_id: 1", "class_name: Worker"),
        ("", "ValueError"),
    ],
)
def test_the_line_that_tells_most(text, reason) -> None:
    assert _reason(ValueError(text)).startswith(reason)

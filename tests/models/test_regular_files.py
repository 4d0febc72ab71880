"""Files are opened without blocking, and closed without a message."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from trninfer.models.regular_files import open_file_or_pipe, open_regular


def test_irregular_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")  # a pipe without a writer
    for path in (tmp_path / "pipe", tmp_path, "/dev/zero"):
        with pytest.raises(ValueError, match="not a regular file"):
            open_regular(path)
    with open_file_or_pipe(tmp_path / "pipe") as file:
        assert file.read() == b""


@pytest.mark.parametrize("opened", [open_regular, open_file_or_pipe])
def test_an_error_at_the_close_loses_nothing(tmp_path: Path, opened) -> None:
    (tmp_path / "x").write_bytes(b"abc")
    with opened(tmp_path / "x") as file:
        assert file.read() == b"abc" and file.name is not None
        os.close(file.fileno())  # so that closing it fails, as when a file server has gone
    assert file.closed

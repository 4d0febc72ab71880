"""Files of options and constants may be regular files or pipes, and reading never blocks."""

import os
import threading
from pathlib import Path

import pytest
from trninfer.app.errors import UsageError
from trninfer.app.small_files import read_small_file


def test_a_file_and_a_pipe_are_read_whole(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    assert read_small_file(tmp_path / "file", "--x", 3) == b"abc"
    reading, writing = os.pipe()  # like a shell's <(command)
    writer = threading.Thread(target=lambda: (os.write(writing, b"ab"), os.write(writing, b"c"), os.close(writing)))
    writer.start()
    assert read_small_file(Path(f"/dev/fd/{reading}"), "--x", 3) == b"abc"
    writer.join()
    os.close(reading)


def test_refusals(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")  # a pipe without a writer
    (tmp_path / "large").write_bytes(b"abcd")
    for name, message in (
        ("pipe", "the pipe is empty"),
        ("large", "larger than 3 bytes"),
        ("none", "no such file"),
        (".", "neither a regular file nor a pipe"),
        ("a\0b", "null"),
    ):
        with pytest.raises(UsageError, match=f"^--x: .*{message}"):
            read_small_file(tmp_path / name, "--x", 3)
    with pytest.raises(UsageError, match="neither a regular file nor a pipe"):
        read_small_file(Path("/dev/zero"), "--x", 3)

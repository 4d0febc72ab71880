"""A file appears whole or not at all, and nothing is left beside it."""

from pathlib import Path

import pytest
from trninfer.simulator.whole_file import replacing


def test_a_file_takes_the_place_of_another_with_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 250)
    path.write_text("old")
    path.chmod(0o640)
    with replacing(path) as file:
        file.write(b"new")
        assert path.read_text() == "old"
    assert path.read_text() == "new" and path.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [path]


def test_what_fails_leaves_the_old_one_alone(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), replacing(path) as file:
        file.write(b"half")
        raise ZeroDivisionError
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]

"""Files are replaced completely or not at all."""

from pathlib import Path

import pytest
from trninfer.simulator.machine.atomic_file import create_beside, replace_with, replacing


def test_a_file_takes_the_place_of_another_with_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 250)
    path.write_text("old")
    path.chmod(0o640)
    with replacing(path) as file:
        file.write(b"new")
        assert path.read_text() == "old"
    assert path.read_text() == "new" and path.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), replacing(path) as file:
        file.write(b"half")
        raise ZeroDivisionError
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_a_file_is_replaced_in_two_steps(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    file, temporary = create_beside(path)
    with file:
        file.write(b"new")
    assert not path.exists() and temporary.parent == tmp_path
    replace_with(temporary, path)
    assert path.read_bytes() == b"new" and list(tmp_path.iterdir()) == [path]

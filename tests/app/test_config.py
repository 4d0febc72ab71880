"""Options from a configuration file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from trninfer.app.config import MAX_BYTES, read_config
from trninfer.app.errors import UsageError

COMMANDS = {
    "classify": {"dtype": "dtype", "batch-size": "batch_size", "quiet": "quiet", "q": "quiet"},
    "bench": {"set": "constants"},
}


def read(tmp_path: Path, text: str, command: str = "classify", name: str = "x.toml") -> dict[str, Any]:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return read_config(path, command, COMMANDS)


def test_values_for_all_commands_and_for_one(tmp_path: Path) -> None:
    text = 'dtype = "bfloat16"\nbatch_size = 4\nset = ["a=1", "b=2"]\n[classify]\nbatch-size = 8\nquiet = true\n'
    assert read(tmp_path, text) == {"dtype": "bfloat16", "batch_size": "8", "quiet": True}
    assert read(tmp_path, text, "bench") == {"constants": ["a=1", "b=2"]}


def test_the_table_of_a_project(tmp_path: Path) -> None:
    text = '[project]\nname = "x"\n[tool.trninfer]\ndtype = "float16"\n[tool.trninfer.classify]\nquiet = true\n'
    assert read(tmp_path, text, name="pyproject.toml") == {"dtype": "float16", "quiet": True}
    with pytest.raises(UsageError, match=r"has no table \[tool.trninfer\]"):
        read(tmp_path, "[tool.other]\n", name="pyproject.toml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dtpye = 'x'", "'dtpye' is not a known option; did you mean dtype?"),
        ("[clasify]\nquiet = true", "'clasify' is not a known command; did you mean classify?"),
        ("[bench]\nquiet = true", "'quiet' is not a known option of bench"),
        ("dtype = 2020-01-01", "dtype must be text, a number, true, false, or a list of these"),
        ("dtype = [[1]]", "dtype must be text"),
        ("dtype =", "not TOML: "),
        ("dtype = '\0'", "not TOML: "),
        ("x" * (MAX_BYTES + 1), f"larger than {MAX_BYTES} bytes"),
    ],
)
def test_files_that_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        read(tmp_path, text)
    assert message in str(error.value) and "\n" not in str(error.value) and len(str(error.value)) < 300


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for path, message in ((tmp_path / "none", "no such file"), (tmp_path, "neither a regular file nor a pipe")):
        with pytest.raises(UsageError, match=message):
            read_config(path, "classify", COMMANDS)
    (tmp_path / "x").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="not TOML"):
        read_config(tmp_path / "x", "classify", COMMANDS)


def test_the_command_line_takes_precedence(cli, feature_model, tmp_path, monkeypatch) -> None:
    path = tmp_path / "trninfer.toml"
    path.write_text('dtype = "bfloat16"\nbatch-size = 3\n[bench]\nformat = "json"\n[serve]\nport = 80\n')
    arguments = ("bench", "--model", feature_model)
    report = cli(*arguments, "--config", path).json()
    assert report["dtype"] == "bfloat16" and report["layers"][0]["input_shape"][0] == 3
    assert cli(*arguments, "--config", path, "--dtype", "float16").json()["dtype"] == "float16"
    monkeypatch.setenv("TRNINFER_CONFIG", str(path))
    assert cli(*arguments).json()["dtype"] == "bfloat16"
    monkeypatch.delenv("TRNINFER_CONFIG")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text('[tool.trninfer]\nformat = "json"\n')
    assert not cli(*arguments).out.startswith("{")  # a file has no effect unless it is named


def test_values_are_checked_as_on_the_command_line(cli, feature_model, tmp_path) -> None:
    path = tmp_path / "trninfer.toml"
    for text, message in (
        ("batch-size = 0", "Invalid value for '--batch-size': '0' is not an integer"),
        ("dtype = 'int8'", "int8"),
        ("quiet = 'perhaps'", "quiet"),
    ):
        path.write_text(text)
        outcome = cli("bench", "--model", feature_model, "--config", path)
        assert outcome.status == 2 and message in outcome.err and len(outcome.err.splitlines()) == 1

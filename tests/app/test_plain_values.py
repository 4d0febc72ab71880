"""Option values are parsed as typer does, without the modules that typer imports for it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import typer.main
from trninfer.app.main import COMMANDS, open_app
from trninfer.app.plain_values import PlainValues
from typer.core import TyperCommand

LINES = [
    ("classify", "a.png", "b.png", "-r", "--dtype", "bfloat16", "--batch-size", "7", "--top-k", "3"),
    ("classify", "a.png", "--output", "-", "--input", "x=1", "--input", "y=2", "--calibrate", "."),
    ("classify", "--from-list", "-", "--lnc", "2", "--target", "trn3", "--layout", "HWC", "-q"),
    ("classify", "a.png", "-v", "-v", "--report", "page.html", "--resume", "--resume-check", "hash"),
    ("bench",),
    ("bench", "--batch-size", "1,2", "--shape", "m=1", "--shape", "k=2", "--set", "a=1", "--advise"),
    ("serve", "--port", "0", "--model", "digits-cnn"),
    ("ffnn", "--data", "rows.csv", "--header", "no"),
    ("simulate", "--lines", "5", "--sweep", "A=1", "kernel.py", "--its", "own"),
    ("import", "net.onnx", "--output", "x.safetensors"),
    ("doctor", "--selftest"),
    ("models",),
    ("lint", "a.py"),
]


def read(words: tuple[str, ...]) -> dict[str, Any]:
    """Return the parameters of a command line, without running the command."""
    group: Any = typer.main.get_command(open_app([words[0]]))
    command = group.commands[words[0]]
    command.params = [parameter for parameter in command.params if parameter.name != "config"]
    found = command.make_context(words[0], list(words[1:])).params
    # Commands receive lists, and None instead of empty ones.
    return {name: list(value) or None if isinstance(value, (list, tuple)) else value for name, value in found.items()}


@pytest.mark.parametrize("words", LINES, ids=" ".join)
def test_values_are_those_of_typer(words, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = read(words)
    monkeypatch.setattr(PlainValues, "__init__", TyperCommand.__init__)
    assert ours == read(words)


@pytest.mark.parametrize("words", [("classify", "--dtype", "x"), ("classify", "--lnc", "3"), ("lint",)], ids=" ".join)
def test_invalid_value_has_the_message_of_typer(words, monkeypatch: pytest.MonkeyPatch, cli) -> None:
    ours = cli(*words)
    monkeypatch.setattr(PlainValues, "__init__", TyperCommand.__init__)
    assert ours.status == 2 and ours == cli(*words)


def test_one_picture_imports_only_what_it_needs(request) -> None:
    picture = request.config.rootpath / "samples" / "2-colour.png"
    code = f"""
import sys
from trninfer.app.main import run
status = run(["classify", {str(picture)!r}, "--dtype", "bfloat16", "--batch-size", "4", "--quiet"])
print(status, *sys.modules, file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    status, *modules = done.stderr.split()
    others = ("app.bench", "app.serve", "app.lint", "app.simulate", "runtime.cluster", "runtime.fallback")
    unused = (
        "simulator.search.ranking",
        "simulator.search.parallel",
        "inference.python_inputs",
        "inference.csv_tables",
    )
    unwanted = {f"trninfer.{name}" for name in (*others, *unused)}
    unwanted |= {"pydantic", "torch", "ray", "fastapi"}
    unwanted |= {"PIL.PdfImagePlugin"}  # Pillow imports all formats if one is missing
    assert status == "0" and not unwanted & set(modules)


def test_a_file_of_options_may_name_any_command(tmp_path, cli) -> None:
    config = tmp_path / "options.toml"
    config.write_text("[serve]\nport = 1\n[models]\nform = 'json'\n")
    outcome = cli("models", "--config", str(config))
    assert "is not a known command" not in outcome.err
    assert set(COMMANDS) == {command.name for command in open_app().registered_commands}

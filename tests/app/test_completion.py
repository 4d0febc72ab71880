"""Shell completion."""

from __future__ import annotations

from pathlib import Path

import pytest
from trninfer.app.completion import complete_constant, complete_model


def test_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "digits.safetensors").touch()
    (tmp_path / "digits.txt").touch()
    (tmp_path / "dir").mkdir()
    (tmp_path / "[x].safetensors").touch()
    monkeypatch.chdir(tmp_path)
    assert complete_model("di") == ["digits-cnn", "digits-detect", "digits-ffnn", "digits.safetensors", "dir/"]
    assert complete_model(f"{tmp_path}/dig") == [f"{tmp_path}/digits.safetensors"]
    assert complete_model("[") == ["[x].safetensors"]


def test_constants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "dma_sustained=" in complete_constant("dma_") and complete_constant("nonsense") == []
    assert all(name.endswith("=") for name in complete_constant(""))
    (tmp_path / "chip.json").touch()
    monkeypatch.chdir(tmp_path)
    assert complete_constant("@ch") == ["@chip.json"]

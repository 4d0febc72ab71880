"""The settings of a server."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
import trninfer
from trninfer.inference.serving.settings import ServingSettings


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"dtype": "int8"}, "dtype is 'int8'; allowed:"),
        ({"backend": "gpu"}, "backend is 'gpu'"),
        ({"workers": 0}, "workers is 0; expected an integer of at least 1"),
        ({"max_batch": 1.5}, "max_batch is 1.5"),
        ({"max_bytes": True}, "max_bytes is True"),
        ({"max_delay": -1}, "max_delay"),
        ({"max_delay": float("nan")}, "max_delay"),
        ({"timeout": 0}, "timeout"),
        ({"max_queue": 3}, r"max_queue must be at least max_batch \(16\), got 3"),
        ({"token": "short"}, "token must have 8 to 200"),
        ({"token": "with a space in it"}, "token"),
        ({"token": "ümlauts-in-it"}, "token"),
    ],
)
def test_invalid_settings_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ServingSettings(**wrong)


def test_batches_are_filled_up_to_few_sizes() -> None:
    assert ServingSettings(max_batch=16).batch_sizes() == (1, 2, 4, 8, 16)
    assert ServingSettings(max_batch=12).batch_sizes() == (1, 2, 4, 8, 12)
    assert ServingSettings(max_batch=1).batch_sizes() == (1,)


def test_the_name_of_a_model_needs_no_escapes(picture_model: Path, tmp_path: Path) -> None:
    odd = tmp_path / "my net (2).safetensors"
    odd.write_bytes(picture_model.read_bytes())
    for settings, name in (
        (ServingSettings(), "digits-cnn"),
        (ServingSettings(odd), "my_net__2_"),
        (ServingSettings(odd, name="ok"), "ok"),
        (ServingSettings(trninfer.load_model(picture_model)), "tiny-cnn"),
    ):
        assert settings.model_name(settings.load()) == name


def test_settings_can_be_pickled_and_hide_the_token(picture_model: Path) -> None:
    settings = ServingSettings(trninfer.load_model(picture_model), token="a-secret-token")
    assert pickle.loads(pickle.dumps(settings)).token == settings.token
    assert "a-secret" not in repr(settings)

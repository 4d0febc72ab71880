"""The folder of caches, also for users without a home folder."""

import os
import pwd

import pytest
from trninfer.lowering.cache_folder import CACHE_VARIABLE, user_cache


@pytest.mark.parametrize("named", [None, "~/cache", "~nobody-of-this-name/cache"])
def test_without_a_home_folder_there_is_none(monkeypatch: pytest.MonkeyPatch, named: str | None) -> None:
    def nobody(*_: object) -> None:
        raise KeyError("no such user")

    for variable in ("HOME", "XDG_CACHE_HOME", CACHE_VARIABLE):
        monkeypatch.delenv(variable, raising=False)
    if named is not None:
        monkeypatch.setenv(CACHE_VARIABLE, named)
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    assert os.path.expanduser("~") == "~"
    assert user_cache("plans") is None

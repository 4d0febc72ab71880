"""Workers in these tests import the stand-ins for backends."""

from __future__ import annotations

import sys

import pytest
from shared_runs import STAND_INS, small_model
from trninfer.models import Model


@pytest.fixture(autouse=True)
def stand_ins(monkeypatch):
    monkeypatch.syspath_prepend(str(STAND_INS))
    yield
    sys.modules.pop("worker_backends", None)


@pytest.fixture(scope="session")
def model() -> Model:
    return small_model()

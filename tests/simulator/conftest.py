"""The NeuronCore on which most tests run."""

import pytest
from nki_tensors import on


@pytest.fixture
def core():
    with on("trn2") as core:
        yield core


@pytest.fixture
def trn3_core():
    with on("trn3") as core:
        yield core

"""The parts of nki.isa that are not instructions."""

import nki.isa as nisa
import pytest
from nki_tensors import on


@pytest.mark.parametrize("target, newer", [("trn1", False), ("trn2", False), ("trn3", True)])
def test_kernels_compare_versions(target, newer):
    with on(target):
        assert (nisa.get_nc_version() >= nisa.nc_version.gen4) is newer

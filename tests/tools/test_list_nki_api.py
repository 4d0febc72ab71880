"""The page of NKI's functions is up to date, and its statements about examples are true."""

from functools import cache

import nki.isa as nisa
import nki.language as nl
import pytest
from trninfer.simulator import NotSimulatedError
from trninfer.simulator.nki.api import table
from trninfer.tools.list_nki_api import main, rows


@cache
def rows_by_name():
    return {row.name: row for row in rows()}


def test_the_page_is_up_to_date():
    assert main(["--check"]) == 0, "run python -m trninfer.tools.list_nki_api"


@pytest.mark.parametrize(
    "name, version, simulated, timed, checked",
    [
        ("nki.isa.nc_matmul", "", True, True, True),
        ("nki.isa.sendrecv", "", True, True, True),
        ("nki.isa.nc_matmul_mx", "", False, False, False),
        ("nki.language.add", "", True, True, True),
        ("nki.language.softmax", "", True, True, True),
        ("nki.language.program_ndim", "", True, False, True),
        ("nki.language.NkiTensor.reshape", "", True, False, True),
        ("nki.language.NkiTensor.indirect", "", True, False, True),
        ("nki.isa.scalar_load", "0.7", True, True, True),
        ("nki.language.alloc_tiles", "0.7", True, False, True),
        ("nki.language.fori_loop", "", True, True, True),
        ("nki.language.dynamic_range", "0.6", True, True, True),
        ("nki.collectives.all_to_all_v_prepare", "0.7", False, False, False),
        ("nki.collectives.all_reduce", "", True, False, True),
    ],
)
def test_examples(name, version, simulated, timed, checked):
    row = rows_by_name()[name]
    assert (row.version, row.simulated, row.timed, row.checked) == (version, simulated, timed, checked)


def test_pages_name_functions_of_the_api():
    assert set(table()["pages"]) <= set(rows_by_name()) | {"nki.compiler.CompileConfig"}
    assert rows_by_name()["nki.isa.activation"].page == "v2.33.0" and rows_by_name()["nki.isa.dma_copy"].page == ""


def test_every_function_is_there_and_what_is_refused_says_so():
    assert len(rows_by_name()) == 210
    for name, row in rows_by_name().items():
        module, _, function = name.rpartition(".")
        if not row.simulated and module == "nki.isa":
            with pytest.raises(NotSimulatedError, match=function):
                getattr(nisa, function)()
    assert not hasattr(nl, "par_dim")

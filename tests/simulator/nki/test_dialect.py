"""Names and arguments of earlier versions: none of them is a current one, and each error names the replacement."""

from enum import Enum

import nki.isa as nisa
import pytest
from trninfer.simulator.nki.api import table
from trninfer.simulator.nki.dialect import ENUMS, EVERY_FUNCTION, OLD_ARGUMENTS, OLD_NAMES, old_argument, old_name

TODAY = table()
FUNCTIONS = {f["qualname"]: {p["name"] for p in f["params"]} for f in TODAY["functions"] if f["kind"] == "function"}
KNOWN = {f"{e['module']}.{e['name']}" for part in ("functions", "classes", "constants") for e in TODAY[part]}
MODULES = {"nisa": "isa", "nl": "language"}


def test_old_names_are_gone_and_what_replaces_them_is_there():
    assert not set(OLD_NAMES) & KNOWN
    for instead in OLD_NAMES.values():
        for word in instead.replace("(", " ").split():
            if word.startswith(("nisa.", "nl.")):
                module, _, name = word.rstrip(",").partition(".")
                assert f"nki.{MODULES[module]}.{name}" in KNOWN, instead


@pytest.mark.parametrize("function, argument", [key for key in OLD_ARGUMENTS if key[0] in FUNCTIONS])
def test_old_arguments_are_no_parameters(function, argument):
    assert argument not in FUNCTIONS[function]


def test_functions_of_old_arguments_exist():
    assert {function for function, _ in OLD_ARGUMENTS} - set(FUNCTIONS) == {EVERY_FUNCTION}


@pytest.mark.parametrize(
    ("dotted", "message"),
    [
        ("nki.language.mgrid", "nki.language.mgrid was removed: index with slices"),
        ("nki.language.fp32.min", "nki.language.fp32 was removed: write the number"),
        ("nki.compiler.sbuf.alloc", "nki.compiler.sbuf was removed: give addresses with"),
        ("nki.language.ncx", None),  # nl.nc was removed
        ("nki.language.load", None),
        ("language.mgrid", None),
    ],
)
def test_messages_of_names(dotted, message):
    found = old_name(dotted)
    assert found is None if message is None else found.startswith(message)


def test_messages_of_arguments():
    assert old_argument("nki.isa.dma_copy", "dst_rmw_op") == (
        "the argument dst_rmw_op of nki.isa.dma_copy was removed: use nisa.dma_compute(dst, [src], reduce_op=...)"
    )
    gone = "the argument mask of {} was removed: bound the slices with min(...) instead"
    for function in ("nki.isa.tensor_copy", "nki.language.load"):
        assert old_argument(function, "mask") == gone.format(function)
    assert old_argument("nki.isa.memset", "dst_rmw_op") is None and old_argument("nki.isa.dma_copy", "src") is None


def test_parameters_that_took_integers_have_enumerations():
    for parameter, enumeration in ENUMS.items():
        module, _, name = enumeration.partition(".")
        assert module == "nisa" and issubclass(getattr(nisa, name), Enum)
        assert any(parameter in parameters for parameters in FUNCTIONS.values())

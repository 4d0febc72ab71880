"""The `nki` modules have the names and signatures of NKI 0.7 and of 0.6; unsupported functions report that they are
unsupported."""

import importlib
import inspect
from enum import Enum

import nki
import nki.isa as nisa
import nki.language as nl
import pytest
from trninfer import simulator
from trninfer.simulator.instructions.core import active
from trninfer.simulator.nki.api import table

MODULES = {
    "nki": nki,
    "nki.isa": nisa,
    "nki.language": nl,
    "nki.collectives": nki.collectives,
    "nki.compiler": nki.compiler,
}
FUNCTIONS = [f for f in table()["functions"] if f["kind"] == "function" and f["module"] in MODULES]
MISSING = "trninfer.simulator.nki.api"  # creates the placeholder for a function that is not simulated
SIMULATED = [f for f in FUNCTIONS if getattr(MODULES[f["module"]], f["name"]).__module__ != MISSING]
METHODS = [f for f in table()["functions"] if f.get("class") == "NkiTensor" and f["name"] != "__init__"]


def shown(default):
    if default is inspect.Parameter.empty:
        return None
    if isinstance(default, Enum):
        return default.name if type(default).__name__ == "MemoryRegion" else f"{type(default).__name__}.{default.name}"
    if default is ...:
        return "..."
    return default.__name__ if callable(default) else repr(default)  # an operator is shown by its name


def documented(parameter):
    if "default" not in parameter:
        return None
    return f"'{parameter['default']}'" if parameter["default"] == "uint8" else parameter["default"]


@pytest.mark.parametrize("function", SIMULATED, ids=lambda f: f["qualname"])
def test_signature_is_the_documented_one(function):
    ours = inspect.signature(getattr(MODULES[function["module"]], function["name"])).parameters.values()
    assert [p.name for p in ours] == [p["name"] for p in function["params"]]
    for parameter, expected in zip(ours, function["params"]):
        assert (parameter.kind is inspect.Parameter.KEYWORD_ONLY) == (expected["kind"] == "keyword")
        if expected["kind"] != "var_keyword" and expected.get("default") != "None":
            assert shown(parameter.default) == documented(expected)


@pytest.mark.parametrize(
    ("name", "homes"),
    [
        ("nki.isa", ("simulator.nki.isa", "simulator.instructions")),
        ("nki.language", ("simulator.nki.language", "simulator.nki.tile_functions", "simulator.nki.loops")),
        ("nki.collectives", ("simulator.nki.collectives", "simulator.instructions.collectives")),
    ],
)
def test_no_function_that_nki_does_not_have(name, homes):
    """Every function and class that a module defines or re-exports, except for the helpers of nki.language, exists in
    NKI."""
    tables = [table()[kind] for kind in ("functions", "classes", "constants", "earlier")]
    known = {entry["name"] for entries in tables for entry in entries if entry["module"] == name}
    own = {
        public
        for public, value in vars(MODULES[name]).items()
        if not public.startswith("_") and any(home in getattr(value, "__module__", "") for home in homes)
        if value is not active  # the core that receives instructions
    }
    assert own and own <= known


@pytest.mark.parametrize("method", METHODS, ids=lambda f: f["name"])
def test_tensor_has_the_documented_methods(method):
    ours = getattr(nl.NkiTensor, method["name"])
    if not isinstance(ours, property):
        assert list(inspect.signature(ours).parameters) == [p["name"] for p in method["params"]]


def test_the_instructions_of_every_kernel_here_are_simulated():
    names = {f["qualname"] for f in SIMULATED}
    instructions = """dma_copy dma_transpose nc_matmul nc_transpose tensor_copy tensor_tensor tensor_scalar
        scalar_tensor_tensor tensor_reduce activation activation_reduce reciprocal memset iota max8 nc_find_index8"""
    assert {f"nki.isa.{name}" for name in instructions.split()} <= names
    language = "ndarray zeros ones full load store copy affine_range sequential_range static_range fori_loop"
    assert {f"nki.language.{name}" for name in language.split()} <= names


@pytest.mark.parametrize(
    "constant", [c for c in table()["constants"] if c["module"] == "nki.language"], ids=lambda c: c["name"]
)
def test_language_constants_exist(constant):
    assert hasattr(nl, constant["name"])


@pytest.mark.parametrize(
    "entry",
    [c for c in table()["classes"] if c["module"] == "nki.isa" and c["bases"] == ["Enum"]],
    ids=lambda c: c["name"],
)
def test_enums_have_the_documented_members(entry):
    ours = getattr(nisa, entry["name"])
    assert {m.name: m.value for m in ours} == {m["name"]: eval(m["value"]) for m in entry["members"]}


def test_missing_function_is_named():
    missing = [f for f in FUNCTIONS if f not in SIMULATED]
    assert missing, "every function is simulated: replace this test"
    for function in missing:
        named = getattr(MODULES[function["module"]], function["name"])  # allows kernels to import it
        with pytest.raises(simulator.NotSimulatedError, match=function["name"]):
            named()


def test_names_that_0_7_removed_and_replaced_run_with_a_warning():
    named = {f["qualname"] for f in FUNCTIONS}
    earlier = [entry["qualname"] for entry in table()["earlier"]]
    assert earlier == ["nki.language.dynamic_range"] and named.isdisjoint(earlier) and callable(nl.dynamic_range)
    assert {"nki.isa.scalar_load", "nki.language.tiles", "nki.compiler.CompileConfig"} <= named


def test_the_version_is_0_7():
    assert nki.__version__.startswith("0.7.0+")


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"has no 'tensor_copi'; did you mean 'tensor_copy'\?"):
        nisa.tensor_copi  # noqa: B018
    with pytest.raises(AttributeError, match="no_such_thing"):
        nl.no_such_thing  # noqa: B018
    assert not hasattr(nisa, "no_such_thing")


def test_modules_import_under_their_nki_names():
    for name in ("nki", *nki.MODULES):
        assert importlib.import_module(name).__name__.startswith("trninfer.simulator.nki")
    from nki.isa.constants import oob_mode

    assert oob_mode is nisa.oob_mode


@pytest.mark.parametrize("module, name", [(nl, "par_dim"), (nl, "mgrid"), (nl, "arange"), (nki.compiler, "sbuf")])
def test_a_name_of_an_earlier_nki_names_its_replacement(module, name):
    with pytest.raises(AttributeError, match=f"{name} was removed: "):
        getattr(module, name)
    assert not hasattr(module, name)


def test_the_old_package_names_its_replacement():
    with pytest.raises(ImportError, match="import nki, "):
        importlib.import_module("neuronxcc.nki")


def test_a_tensor_annotates_with_its_shape():
    assert nki.typing.tensor[128, 512] is nl.NkiTensor

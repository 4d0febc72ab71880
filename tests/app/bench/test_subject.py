"""The subject of a benchmark, and the options that are valid for it."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from trninfer.app.bench.subject import BenchSubject, _shape_keys
from trninfer.app.errors import UsageError
from trninfer.app.options import RunOptions


def test_quiet_alone_would_report_nothing(cli, feature_model) -> None:
    outcome = cli("bench", "--quiet", "--model", feature_model)
    assert outcome.status == 2 and "with --quiet, bench prints nothing" in outcome.err
    assert "verify passed" in cli("bench", "--quiet", "--verify", "--model", feature_model).out
    assert cli("bench", "--quiet", "--format", "csv", "--model", feature_model).out.startswith("name,kernel")


KERNEL = {"kernel": "matmul", "shape": "m=1,k=1,n=1"}
SUITE = {"suite": "s"}


@pytest.mark.parametrize(
    ("subject", "options", "message"),
    [
        ({**KERNEL, "advise": True}, {}, "--advise applies to networks"),
        ({**SUITE, "advise": True}, {}, "--advise applies to networks"),
        (KERNEL, {"lnc": 2}, "--lnc applies to networks; kernels and suites run on one NeuronCore"),
        (SUITE, {"lnc": 2}, "--lnc applies to networks"),
        ({"advise": True}, {"lnc": 2}, "--advise supports only one NeuronCore; omit --lnc"),
        ({**KERNEL, "show_lowering": True}, {}, "--show-lowering applies to networks; kernels are not lowered"),
        ({**SUITE, "show_lowering": True}, {}, "--show-lowering applies to networks"),
        ({**KERNEL, "model": "m"}, {}, "--model and --kernel cannot be used together; use only one of them"),
        ({**KERNEL, **SUITE, "model": "m"}, {}, "--model and --kernel and --suite cannot be used together"),
        ({"shape": "m=1"}, {}, "--shape needs --kernel"),
        (SUITE, {"verify": True}, "--verify and --trace do not support suites; use --kernel or a model"),
        (SUITE, {"trace": Path("t")}, "--verify and --trace do not support suites"),
        (SUITE, {"backend": "neuron"}, "the times of suites are always predicted; omit --backend neuron"),
        ({}, {"quiet": True}, "with --quiet, bench prints nothing"),
        ({"graph": Path("g.svg")}, {}, "--graph draws one network, so it requires --model"),
        ({"graph": Path("no/g.svg"), "model": "m"}, {}, "--graph no/g.svg: the folder .*/no does not exist"),
    ],
)
def test_mutually_exclusive_options_are_refused(tmp_path, monkeypatch, subject, options, message) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=f"^{message}"):
        BenchSubject(**subject).check(RunOptions(**options), False)


@pytest.mark.parametrize(
    ("subject", "options", "compared"),
    [
        ({}, {}, False),
        (KERNEL, {"verify": True, "trace": Path("t"), "backend": "neuron"}, False),
        ({"model": "m", "advise": True, "show_lowering": True, "graph": Path("g.svg")}, {}, False),
        ({"model": "m"}, {"lnc": 2, "dtype": "float8_e4m3"}, False),
        ({}, {"quiet": True}, True),
        *(({}, {"quiet": True, **told}, False) for told in (
            {"form": "json"}, {"verify": True}, {"trace": Path("t")}, {"report_file": Path("r")}, {"output": Path("o")},
        )),
        (SUITE, {"quiet": True}, False),
        ({"show_lowering": True}, {"quiet": True}, False),
        ({"model": "m", "graph": Path("g.svg")}, {"quiet": True}, False),
    ],
)  # fmt: skip
def test_compatible_options_are_accepted(tmp_path, monkeypatch, subject, options, compared) -> None:
    monkeypatch.chdir(tmp_path)
    BenchSubject(**subject).check(RunOptions(**options), compared)


@pytest.mark.parametrize(
    ("option", "field"), [("--output", "output"), ("--trace", "trace"), ("--report", "report_file")]
)
def test_a_graph_has_a_file_of_its_own(tmp_path, option, field) -> None:
    (tmp_path / "link.svg").symlink_to("g.svg")
    subject = BenchSubject(model="m", graph=tmp_path / "g.svg")
    with pytest.raises(UsageError, match=f"^--graph and {option} both write .*link.svg; use different files"):
        subject.check(RunOptions(**{field: tmp_path / "link.svg"}), False)
    subject.check(RunOptions(**{field: Path("/dev/null")}), False)
    model = tmp_path / "m.safetensors"
    model.touch()
    with pytest.raises(UsageError, match=r"^--graph .*m.safetensors: this file is read as input; use another name"):
        BenchSubject(model=str(model), graph=model).check(RunOptions(), False)


def test_the_sizes_of_a_kernel() -> None:
    assert BenchSubject().sizes is None and BenchSubject(kernel="k").sizes == {}
    assert BenchSubject(kernel="k", shape=" m = 128 ,, n=x=y ").sizes == {"m": "128", "n": "x=y"}
    for shape, message in (
        ("m=1,k", "'k' is not of the form key=value, as in m=128,n=64"),
        ("=1", "'=1' is not of the form"),
        ("m=", "'m=' is not of the form"),
        ("m=1,n=1, m =2", "m is given twice"),
    ):
        with pytest.raises(UsageError, match=f"^--shape: {message}"):
            _ = BenchSubject(kernel="k", shape=shape).sizes


def test_options_that_a_suite_ignores() -> None:
    other = RunOptions(dtype="float16", batch_size=2, target="trn1")
    assert BenchSubject(suite="s").ignored(other) == ["--dtype", "--batch-size", "--target"]
    assert BenchSubject(suite="s").ignored(RunOptions(target="trn2")) == ["--target"]
    assert BenchSubject(suite="s").ignored(RunOptions()) == BenchSubject(model="m").ignored(other) == []


def test_keys_that_complete_a_shape() -> None:
    def keys(kernel: str, typed: str) -> list[str]:
        return _shape_keys(SimpleNamespace(params={"kernel": kernel}), typed)

    assert keys("transpose", "") == ["m=", "n="] and keys("transpose", "m=3,") == ["m=3,n="]
    assert keys("transpose", "n=1,m=3,") == [] and keys("no kernel", "m") == []

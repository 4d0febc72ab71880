"""The backend that the options select, and the messages about it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from trninfer import kernels
from trninfer.app.backends import choice_note, cores_of, open_backend, open_session, progress_printer, session_on
from trninfer.app.errors import UsageError
from trninfer.app.options import AnswerOptions, RunOptions
from trninfer.models import load_model
from trninfer.runtime.backend import ArraySpec, BackendUnavailable
from trninfer.runtime.neuron import environment


def test_options_of_the_chip_have_no_effect_on_the_simulator(cli, feature_model) -> None:
    arguments = ("bench", "--model", feature_model, "--backend", "sim", "--format", "json")
    plain = cli(*arguments, "--quiet").json()
    outcome = cli(*arguments, "--warmup", 1, "--iters", 9, "--device-times")
    assert outcome.err.splitlines()[0] == (
        "trninfer: --warmup, --iters, --device-times: no effect on the simulator, which predicts times"
    )
    assert outcome.json()["layers"] == plain["layers"]
    assert cli(*arguments, "--warmup", 1, "--quiet").err == ""


def test_why_auto_took_the_simulator(cli, feature_model, monkeypatch) -> None:
    missing = environment.Way(None, ("no device", "no package"))
    monkeypatch.setattr(environment, "neuron_devices", lambda: ("/dev/neuron0",))
    monkeypatch.setattr(environment, "find_way", lambda: missing)
    for _ in range(2):
        assert "auto chose the simulator: no device; see trninfer doctor" in cli("bench", "--model", feature_model).out
    assert "auto chose" not in cli("bench", "--model", feature_model, "--backend", "sim").out


def told(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err


def test_the_backend_that_is_asked_for(capsys) -> None:
    plain = open_backend(RunOptions(backend="sim", target="trn3"))
    assert (plain.info.name, plain.info.target, plain.info.lnc) == ("sim", "trn3", 1)
    assert open_backend(RunOptions(backend="sim", target="trn2", lnc=2)).info.lnc == 2
    kernel, spec = kernels.kernel("transpose"), ArraySpec((3, 5), np.dtype(np.float32))
    for options in (RunOptions(backend="sim", trace=Path("t")), RunOptions(backend="sim", report_file=Path("r"))):
        assert open_backend(options).time(kernel, spec).timeline is not None
    assert plain.time(kernel, spec).timeline is None and told(capsys) == ""
    open_backend(RunOptions(backend="sim", compile_timeout=5, iterations=3))
    assert told(capsys) == ("trninfer: --iters, --compile-timeout: no effect on the simulator, which predicts times\n")


def test_a_chip_that_is_not_there(monkeypatch) -> None:
    monkeypatch.setattr(environment, "neuron_devices", lambda: ())
    monkeypatch.delenv("TRNINFER_BACKEND", raising=False)
    for call in (lambda: open_backend(RunOptions(backend="neuron")), lambda: choice_note("neuron")):
        with pytest.raises(BackendUnavailable, match="no Neuron device"):
            call()
    assert (choice_note("auto") or "").startswith("auto chose the simulator: no Neuron device")
    assert choice_note("sim") is None
    monkeypatch.setenv("TRNINFER_BACKEND", "sim")
    assert choice_note("auto") == "auto chose the simulator: TRNINFER_BACKEND=sim; see trninfer doctor"


def test_a_chip_has_no_timeline(monkeypatch) -> None:
    monkeypatch.setattr(environment, "neuron_devices", lambda: ("/dev/neuron0",))
    monkeypatch.setattr(environment, "find_way", lambda: environment.Way(environment.NRT, ()))
    monkeypatch.delenv("TRNINFER_BACKEND", raising=False)
    assert choice_note("auto") is None
    with pytest.raises(UsageError, match=r"^--trace requires the simulator, .*; add --backend sim$"):
        open_backend(RunOptions(trace=Path("t")))


def test_a_session_in_this_process(feature_model, capsys) -> None:
    options = AnswerOptions(backend="sim", target="trn2", dtype="bfloat16", batch_size=3, launches="layer")
    with open_session(load_model(feature_model), options) as session:
        assert (session.dtype, session.batch_size, session.info.target) == ("bfloat16", 3, "trn2")
        assert {row.name for row in session.rows} >= {"hidden.matmul", "argmax"}
        assert cores_of(session, {0: 3.0}) is None
    assert told(capsys) == ""


def test_how_many_launches_it_takes_is_reported(feature_model, capsys) -> None:
    """Two launches with half the instructions each, where one launch would exceed the limit by one instruction."""
    model, backend = load_model(feature_model), open_backend(RunOptions(backend="sim", target="trn2"))
    whole = session_on(backend, model, RunOptions())
    assert whole.launches_note is None and told(capsys) == ""
    cut = RunOptions(instructions=1)
    assert session_on(backend, model, cut).launches_note is not None
    assert told(capsys).startswith("trninfer: ")
    session_on(backend, model, replace(cut, quiet=True))
    assert told(capsys) == ""


def test_progress_is_a_line_that_no_terminal_is_tricked_with(capsys) -> None:
    progress_printer(RunOptions())("compiling a\x1b[2J")
    assert told(capsys) == "compiling a\\x1b[2J\n"
    progress_printer(RunOptions(quiet=True))("compiling")
    assert told(capsys) == ""

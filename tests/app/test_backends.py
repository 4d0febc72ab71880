"""Where kernels run, as options ask for it, and what is said of that."""

from trninfer.runtime.neuron import environment


def test_options_of_the_chip_have_no_effect_on_the_simulator(cli, feature_model) -> None:
    arguments = ("bench", "--model", feature_model, "--backend", "sim", "--format", "json")
    plain = cli(*arguments, "--quiet").json()
    outcome = cli(*arguments, "--warmup", 1, "--iters", 9, "--device-times")
    assert outcome.err.splitlines()[0] == (
        "trninfer: --warmup, --iters, --device-times: no effect on the simulator, whose times are predicted"
    )
    assert outcome.json()["layers"] == plain["layers"]
    assert cli(*arguments, "--warmup", 1, "--quiet").err == ""


def test_why_auto_took_the_simulator(cli, feature_model, monkeypatch) -> None:
    missing = environment.Way(None, ("no device", "no package"))
    monkeypatch.setattr(environment, "find_way", lambda nrtpy_named=False: missing)
    for _ in range(2):
        assert "auto took the simulator: no device; see trninfer doctor" in cli("bench", "--model", feature_model).out
    assert "auto took" not in cli("bench", "--model", feature_model, "--backend", "sim").out

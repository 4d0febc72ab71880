"""`bench --advise`: the gain of each suggestion equals the gain of a benchmark with its option."""

import pytest


def test_computed_gains_are_those_of_a_bench_with_the_option(cli, picture_model) -> None:
    document = cli("bench", "--model", picture_model, "--advise", "--format", "json").json()
    (network,) = document["advice"]
    assert network["network"] == "tiny-cnn" and network["total_us"] == document["total_us"]
    assert len(network["advice"]) >= 4
    for advice in network["advice"]:
        assert advice["evidence"] and advice["after_us"] < advice["before_us"]
        assert advice["kind"] == "computed" or advice["option"] is None
    by_option = [advice for advice in network["advice"] if advice["option"] and "--cores" not in advice["option"]]
    for of_layer in (False, True):
        advice = next(advice for advice in by_option if (advice["layer"] is not None) == of_layer)
        tried = cli("bench", "--model", picture_model, *advice["option"].split(), "--format", "json").json()
        rows = {row["name"]: row["latency_us"] for row in tried["layers"]}
        batch = tried["bench"]["batch_size"]
        after = tried["total_us"] if advice["layer"] is None else rows[advice["layer"]]
        assert after / batch == pytest.approx(advice["after_us"])


def test_what_ifs_are_scheduled_anew_within_what_is_critical(cli, picture_model) -> None:
    document = cli("bench", "--model", picture_model, "--advise", "--format", "json").json()
    (network,) = document["advice"]
    assert {what["resource"]: what["critical_us"] for what in network["what_ifs"]} == pytest.approx(
        document["critical"]
    )
    for what in network["what_ifs"]:
        assert what["saved_us"] == pytest.approx(network["total_us"] - what["latency_us"])
        assert what["saved_us"] <= what["critical_us"] / 2 + 0.25 * network["total_us"]


def test_ways_of_launching_and_forms_are_tried(cli, picture_model) -> None:
    words = ("bench", "--model", picture_model, "--launches", "layer", "--form", "direct", "--dtype", "bfloat16")
    (network,) = cli(*words, "--advise", "--format", "json").json()["advice"]
    options = [advice["option"] for advice in network["advice"]]
    assert "--launches network" in options and "--dtype bfloat16" not in options


def test_advice_in_a_terminal_and_a_note_if_there_is_none(cli) -> None:
    told = cli("bench", "--model", "digits-ffnn", "--advise").out
    assert "digits-ffnn: with a resource twice as fast" in told and "1. the launch takes 10.2 of" in told
    refused = cli("bench", "--kernel", "matmul", "--shape", "m=1,k=1,n=1", "--advise")
    assert refused.status == 2 and "--advise applies to networks" in refused.err

"""Benchmarks of networks: layers, checks against the golden model, and the graph after each lowering pass."""

import json
from pathlib import Path

import pytest
from trninfer.lowering.passes import all_passes

SHOW = ("bench", "--show-lowering", "--model")


def test_a_network_pass_by_pass(cli, picture_model: Path) -> None:
    words = (*SHOW, picture_model, "--batch-size", 8, "--dtype", "bfloat16", "--target", "trn3")
    told = cli(*words, "--quiet")
    assert told.status == 0 and told.out.startswith("tiny-cnn: bfloat16, a batch of 8, trn3\n")
    heads = [line.partition(":")[0] for line in told.out.splitlines() if line[:1].strip()]
    names = ["layers", *(each.name for each in all_passes(()))]
    assert heads[3:] == [*names, "lay_out_weights", "schedule"]
    document = cli(*words, "--format", "json").json()
    ((launch,),) = [network["launches"] for network in document["lowering"]]
    assert launch["predicted_us"] == pytest.approx(document["total_us"] - document["layers"][0]["latency_us"])
    assert document["layers"][0]["name"] == "launch" and launch["pictures"] == 8
    assert {"kind", "node", "value"} == set(launch["decisions"][0]) and [
        each["name"] for each in launch["passes"]
    ] == heads[3:-1]
    assert all(line in told.out for each in launch["passes"] for line in each["nodes"] or [])
    plain = cli(*words)
    assert plain.out.startswith(told.out) and "MFU" in plain.out[len(told.out) :]


def test_all_networks_and_lines_of_json(cli) -> None:
    lines = [json.loads(line) for line in cli("bench", "--show-lowering", "--format", "ndjson").out.splitlines()]
    shown = [line for line in lines if line["type"] == "lowering"]
    assert [line["network"] for line in shown] == ["digits-cnn", "digits-detect", "digits-ffnn"]
    assert all("lowering" not in line for line in lines if line["type"] == "summary")


def test_single_kernels_have_no_passes(cli, feature_model: Path) -> None:
    told = cli(*SHOW, feature_model, "--launches", "layer", "--quiet").out
    assert ", kernel matmul_fully_optimized, inputs 1\n" in told and "decisions" not in told


def test_a_table_for_programs_leaves_it_to_standard_error(cli, feature_model: Path) -> None:
    told = cli(*SHOW, feature_model, "--format", "csv")
    assert told.out.startswith("name,")
    assert "load_input" not in told.out and "\nload_input" in told.err


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--kernel", "matmul", "--shape", "m=1,k=1,n=1"), "--show-lowering applies to networks"),
        (("--suite", "cs149-part2"), "--show-lowering applies to networks"),
        (("--model", "digits-ffnn", "--batch-size", "1,2"), "--show-lowering: not supported in a sweep"),
    ],
)
def test_layer_without_lowering_is_refused(cli, words: tuple[str, ...], reason: str) -> None:
    refused = cli("bench", "--show-lowering", *words)
    assert refused.status == 2 and reason in refused.err


def test_one_model(cli, picture_model) -> None:
    report = cli("bench", "--model", picture_model, "--format", "json", "--verify").json()
    assert [layer["name"] for layer in report["layers"]][-1] == "head"
    assert report["verify"]["passed"] and report["predictions"] == []


def test_two_cores(cli, picture_model, tmp_path) -> None:
    outcome = cli(
        "bench", "--model", picture_model, "--batch-size", 6, "--lnc", 2, "--verify", "--trace", tmp_path / "t"
    )
    assert outcome.status == 0 and "on trn2 with LNC 2 in float32" in outcome.out and "verify passed" in outcome.out
    assert "core 1 Tensor Engine" in (tmp_path / "t").read_text()
    bench = ("bench", "--model", picture_model, "--batch-size", 64, "--format", "json")
    one, two = (cli(*bench, "--lnc", lnc).json() for lnc in (1, 2))
    assert (one["lnc"], two["lnc"]) == (1, 2) and two["total_us"] < one["total_us"]
    assert "the time for two cores to synchronise" in two["latency_note"]


def test_the_forms_of_convolutions(cli) -> None:
    layers = cli("bench", "--model", "digits-cnn", "--format", "json").json()["layers"]
    forms = {layer["name"]: layer["form"] for layer in layers}
    assert forms["launch"] is None and forms["output"] is None
    assert (forms["conv1"], forms["conv4"]) == ("direct, 30 taps per matmul, 8 rows packed", "direct, 2 rows packed")
    assert "direct, 30 taps per matmul, 8 rows packed: conv1\n" in cli("bench", "--model", "digits-cnn").out


def test_a_graph_is_of_the_times_in_the_table(cli, picture_model: Path, tmp_path: Path) -> None:
    bench = ("bench", "--model", picture_model, "--batch-size", 3, "--graph", tmp_path / "g.svg", "--format", "json")
    rows = {row["name"]: row["latency_us"] for row in cli(*bench).json()["layers"]}
    drawn = (tmp_path / "g.svg").read_text()
    assert drawn.startswith("<svg") and all(f"{rows[name]:.2f} us" in drawn for name in ("conv", "head"))
    assert "trn2" in drawn and "float32" in drawn and "predicted" in drawn


def test_eight_bits_are_verified_on_inputs_of_their_scales(cli, feature_model: Path) -> None:
    """The network has four calibration inputs; a batch of five repeats the first one."""
    bench = ("bench", "--model", feature_model, "--dtype", "float8_e4m3", "--eight-bits", "all", "--batch-size", 5)
    report = cli(*bench, "--verify", "--format", "json").json()
    assert report["verify"]["passed"] and report["verify"]["max_abs_error"] > 0
    assert {row["input_shape"][0] for row in report["layers"]} == {5}
    assert report["agreement"]["total"] == 4

"""`bench --show-lowering`: the graph after each pass, in text and in JSON."""

import json
from pathlib import Path

import pytest

SHOW = ("bench", "--show-lowering", "--model")


def test_a_network_pass_by_pass(cli) -> None:
    words = (*SHOW, "digits-cnn", "--batch-size", 8, "--dtype", "bfloat16", "--target", "trn3")
    told = cli(*words, "--quiet")
    assert told.status == 0 and told.out.startswith("digits-cnn: bfloat16, a batch of 8, trn3\n")
    heads = [line.partition(":")[0] for line in told.out.splitlines() if line[:1].strip()]
    names = ["layers", "split_tails", "load_input", "load_taps", "pack_images", "place", "group_input"]
    assert heads[3:] == [*names, "add_margins", "choose_forms", "pack_taps", "lay_out", "schedule"]
    document = cli(*words, "--format", "json").json()
    ((launch,),) = [network["launches"] for network in document["lowering"]]
    assert launch["predicted_us"] == pytest.approx(document["total_us"] - document["layers"][0]["latency_us"])
    assert document["layers"][0]["name"] == "launch" and launch["pictures"] == 8
    assert launch["decisions"]["packed"] > 1 and [each["name"] for each in launch["passes"]] == heads[3:-1]
    assert all(line in told.out for each in launch["passes"] for line in each["nodes"] or [])
    plain = cli(*words)
    assert plain.out.startswith(told.out) and "MFU" in plain.out[len(told.out) :]


def test_all_networks_and_lines_of_json(cli) -> None:
    lines = [json.loads(line) for line in cli("bench", "--show-lowering", "--format", "ndjson").out.splitlines()]
    shown = [line for line in lines if line["type"] == "lowering"]
    assert [line["network"] for line in shown] == ["digits-cnn", "digits-ffnn"]
    assert all("lowering" not in line for line in lines if line["type"] == "summary")


def test_single_kernels_have_no_passes(cli, feature_model: Path) -> None:
    told = cli(*SHOW, feature_model, "--launches", "layer", "--quiet").out
    assert ", kernel matmul_fully_optimized, inputs 1\n" in told and "decisions" not in told


def test_a_table_for_programs_leaves_it_to_standard_error(cli, feature_model: Path) -> None:
    told = cli(*SHOW, feature_model, "--format", "csv")
    assert told.out.startswith("name,") and "split_tails" not in told.out and "\nsplit_tails" in told.err


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--kernel", "matmul", "--shape", "m=1,k=1,n=1"), "--show-lowering is for networks"),
        (("--suite", "cs149-part2"), "--show-lowering is for networks"),
        (("--model", "digits-ffnn", "--batch-size", "1,2"), "--show-lowering: of one bench"),
    ],
)
def test_what_has_no_lowering_is_refused(cli, words: tuple[str, ...], reason: str) -> None:
    refused = cli("bench", "--show-lowering", *words)
    assert refused.status == 2 and reason in refused.err

"""`--dtype float8_e4m3` on the command line: the output, `--calibrate`, `--eight-bits`, and invalid combinations."""

from pathlib import Path

import pytest
from report_schema import SCHEMA, check_schema
from small_inputs import draw_picture

pytestmark = pytest.mark.slow


def test_agreement_with_float32_is_printed_beside(cli, tmp_path) -> None:
    for number in range(3):
        draw_picture(tmp_path / f"{number}.png", number)
    (tmp_path / "broken.png").write_bytes(b"no picture")
    run = ("bench", "--model", "digits-cnn", "--dtype", "float8_e4m3", "--calibrate", tmp_path)
    outcome = cli(*run)
    assert outcome.status == 0 and f"of 3: 3 pictures of {tmp_path}" in " ".join(outcome.out.split())
    assert (
        "broken.png" in outcome.err
        and "weights of 4 of 6 layers are in 8 bits (in bfloat16: conv1, output)" in outcome.err
    )
    report = cli(*run, "--format", "json").json()
    check_schema(report, SCHEMA)
    assert report["agreement"]["total"] == 3 and report["agreement"]["source"] == f"3 pictures of {tmp_path}"
    forms = {layer["name"]: layer["form"] or "" for layer in report["layers"]}
    assert [name for name, form in forms.items() if "8-bit weights" in form] == ["conv2", "conv3", "conv4", "conv5"]


def test_classify_verifies_by_a_tolerance_of_its_own(cli) -> None:
    picture = Path(__file__).parents[2] / "samples" / "7-clean-print.png"
    report = cli("classify", picture, "--dtype", "float8_e4m3", "--verify", "--format", "json").json()
    assert report["verify"]["passed"] and report["verify"]["tolerance"] == pytest.approx(0.3125)
    assert report["predictions"][0]["label"] == "7"
    assert (report["agreement"]["same"], report["agreement"]["total"]) == (8, 8)


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_bench_verifies_calibration_inputs(cli, target) -> None:
    run = ("bench", "--model", "digits-cnn", "--dtype", "float8_e4m3", "--verify", "--target", target)
    outcome = cli(*run, "--batch-size", 9)
    assert outcome.status == 0 and "verify passed" in outcome.out and "agrees with float32 on 8 of 8" in outcome.out


def test_all_layers_on_request(cli) -> None:
    outcome = cli("bench", "--model", "digits-cnn", "--dtype", "float8_e4m3", "--eight-bits", "all")
    assert "weights of 6 of 6 layers are in 8 bits, and" in outcome.err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("bench", "--calibrate", "."), "--calibrate requires --dtype float8_e4m3, not float32"),
        (
            ("bench", "--eight-bits", "all", "--dtype", "bfloat16"),
            "--eight-bits requires --dtype float8_e4m3, not bfloat16",
        ),
        (
            ("bench", "--kernel", "matmul", "--dtype", "float8_e4m3"),
            "matmul supports only 32-bit and 16-bit dtypes; use conv2d for float8_e4m3",
        ),
        (("bench", "--dtype", "float8_e4m3", "--launches", "layer"), "float8_e4m3 requires --launches network"),
        (
            ("bench", "--model", "digits-ffnn", "--dtype", "float8_e4m3", "--calibrate", "."),
            "digits-ffnn does not read pictures",
        ),
        (("doctor", "--selftest", "--dtype", "float8_e4m3"), "--selftest supports only 32-bit and 16-bit dtypes"),
    ],
)
def test_unusable_calibration_is_refused_in_one_line(cli, arguments, told) -> None:
    outcome = cli(*arguments)
    assert outcome.status == 2 and told in outcome.err and outcome.err.count("\n") == 1


def test_a_folder_without_pictures_is_refused(cli, tmp_path) -> None:
    outcome = cli("bench", "--model", "digits-cnn", "--dtype", "float8_e4m3", "--calibrate", tmp_path)
    assert outcome.status == 2 and "no readable pictures; expected a folder of pictures" in outcome.err

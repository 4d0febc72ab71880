"""`trninfer.bench` returns the results that `trninfer bench` prints."""

import pytest
import trninfer


def test_bench_returns_the_figures_of_the_command(cli, picture_model, tmp_path) -> None:
    found = trninfer.bench(picture_model, batch_size=2, backend="sim", dtype="bfloat16")
    words = ("bench", "--model", picture_model, "--batch-size", "2", "--dtype", "bfloat16", "--backend", "sim")
    printed = cli(*words).out.splitlines()
    assert [line for line in str(found).splitlines() if "on this machine" not in line] == [
        line for line in printed if "on this machine" not in line and not line.startswith("auto chose")
    ]
    document = cli(*words, "--format", "json").json()
    mine = found.to_dict()
    assert {**mine, "host_seconds": 0} == {**document, "host_seconds": 0}
    assert found.total_us == document["total_us"] and found.latency_kind == "predicted"
    assert [layer.name for layer in found.layers] == [row["name"] for row in document["layers"]]
    assert found.inputs_per_second == pytest.approx(2e6 / found.total_us) and 0 < found.floor_us < found.total_us
    assert found.to_markdown().startswith("**tiny-cnn: a batch of 2**")
    found.report(tmp_path / "page.html")
    assert "What the engines did" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert repr(found).startswith("<Benchmark: tiny-cnn, a batch of 2, predicted")


def test_bench_verifies_and_launches_by_layer(feature_model) -> None:
    found = trninfer.bench(feature_model, batch_size=3, backend="sim", launches="layer", verify=True)
    assert found.verify is not None and found.verify.passed and len(found.layers) > 2
    assert found.to_pandas()["latency_us"].sum() == pytest.approx(found.total_us)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"eight_bits": "all"}, "eight_bits requires dtype 'float8_e4m3'"),
        ({"calibrate": "photos"}, "calibrate requires dtype"),
        ({"calibrate": 3, "dtype": "float8_e4m3"}, "the path of a folder"),
        ({"launches": "all"}, "launches is 'all'; allowed: network, layer"),
        ({"launches": "layer", "lnc": 2}, "lnc must be 1"),
        ({"batch_size": 0}, "batch_size is 0"),
    ],
)
def test_refusals(arguments: dict, told: str) -> None:
    with pytest.raises(trninfer.ArgumentError, match=told):
        trninfer.bench(backend="sim", **arguments)

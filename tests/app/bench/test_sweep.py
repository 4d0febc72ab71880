"""`bench` with several batch sizes, targets and dtypes."""

import numpy as np
import pytest
from small_inputs import write_model
from trninfer.models import Dense, FeatureInput, Network, Output
from trninfer.simulator.timing.constants import machine

SWEEP = (
    "bench",
    "--model",
    "digits-ffnn",
    "--batch-size",
    "1,4,4",
    "--target",
    "trn2,trn1",
    "--dtype",
    "float32,bfloat16",
)


def test_each_combination_is_a_row_as_a_bench_of_its_own_has_it(cli) -> None:
    document = cli(*SWEEP, "--format", "json").json()
    points = document["sweep"]
    found = [(point["target"], point["dtype"], point["batch_size"]) for point in points]
    assert found == [(t, d, b) for t in ("trn2", "trn1") for d in ("float32", "bfloat16") for b in (1, 4)]
    assert document["layers"] == [] and document["target"] == "trn2,trn1"
    for point in (points[1], points[6]):
        words = ("--batch-size", str(point["batch_size"]), "--target", point["target"], "--dtype", point["dtype"])
        alone = cli("bench", "--model", "digits-ffnn", *words, "--format", "json").json()
        assert alone["total_us"] == pytest.approx(point["total_us"]) and alone["mfu"] == pytest.approx(point["mfu"])
        assert alone["layers"][0]["sbuf_peak_bytes"] == point["sbuf_peak_bytes"]
        assert point["us_per_input"] == pytest.approx(point["total_us"] / point["batch_size"])
        assert point["inputs_per_second"] == pytest.approx(1e6 / point["us_per_input"])
        assert point["cores"] is None and point["within_limit"] is None


def test_the_best_batch_within_a_limit(cli, picture_model) -> None:
    words = ("bench", "--model", picture_model, "--batch-size", "1,8,64", "--latency-limit", "0.03ms")
    points = cli(*words, "--format", "json").json()["sweep"]
    assert [point["within_limit"] for point in points] == [True, True, False]
    assert [point["best"] for point in points] == [False, True, False]
    told = cli(*words).out
    assert "highest throughput within 30 us by a batch of 8" in told
    none = cli(*words[:-1], "1us").out
    assert "no batch is within 1 us" in none


def test_cores_share_hbm(cli, tmp_path) -> None:
    layers = (Dense("wide", 2048, 2048),)  # 16 MB of weights, so HBM is the bottleneck
    path = write_model(tmp_path / "wide.safetensors", Network("wide", FeatureInput(2048), layers, (), Output("values")))
    (point,) = cli("bench", "--model", path, "--cores", "4", "--target", "trn2", "--format", "json").json()["sweep"]
    assert point["cores"] == 4 and point["cores_total_us"] > point["total_us"]
    assert point["cores_inputs_per_second"] == pytest.approx(4e6 / point["cores_total_us"])
    (alone,) = cli("bench", "--model", path, "--cores", "1", "--target", "trn2", "--format", "json").json()["sweep"]
    assert alone["cores_total_us"] == alone["total_us"] == point["total_us"]


def test_another_machine_in_every_combination(cli, feature_model) -> None:
    words = ("bench", "--model", feature_model, "--batch-size", "1,3", "--target", "trn2", "--format", "json")
    plain, slower = (cli(*words, *more).json() for more in ((), ("--set", "launch_ns=1000000")))
    gained = [b["total_us"] - a["total_us"] for a, b in zip(plain["sweep"], slower["sweep"])]
    assert gained == pytest.approx([1000 - machine("trn2").launch_ns / 1000] * 2)


@pytest.mark.parametrize("form", ["csv", "ndjson", "table"])
def test_other_forms(cli, form: str) -> None:
    told = cli("bench", "--model", "digits-ffnn", "--batch-size", "1,2", "--format", form).out
    if form == "csv":
        assert told.splitlines()[0].startswith("network,batch_size,target") and len(told.splitlines()) == 3
    elif form == "ndjson":
        assert told.count('"type": "sweep"') == 2
    else:
        assert "inputs/s" in told and "* " in told


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--batch-size", "1,0"), "'0' is not an integer"),
        (("--batch-size", ""), "not an integer"),
        (("--dtype", "float32,float8"), "'float8' is not one of"),
        (("--target", "trn4"), "'trn4' is not one of"),
        (("--latency-limit", "100"), "expected a time with its unit"),
        (("--cores", "2", "--lnc", "2"), "separate batches on each NeuronCore; omit --lnc"),
        (
            ("--cores", "2", "--graph", "g.svg", "--show-lowering", "--model", "digits-ffnn"),
            "--show-lowering and --graph: not supported in a sweep",
        ),
        (("--batch-size", "1,2", "--verify"), "--verify: not supported in a sweep"),
        (("--batch-size", "1,2", "--kernel", "matmul", "--shape", "m=1,k=1,n=1"), "require a network"),
    ],
)
def test_impossible_sweep_is_refused_in_one_line(cli, words: tuple[str, ...], told: str) -> None:
    run = cli("bench", *words)
    assert run.status == 2 and told in run.err and len(run.err.splitlines()) == 1


@pytest.mark.slow
def test_sizes_of_pictures_that_a_file_leaves_open(cli, tmp_path, monkeypatch) -> None:
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    monkeypatch.setenv("TRNINFER_CACHE", str(tmp_path / "cache"))
    make, float32 = onnx.helper, onnx.TensorProto.FLOAT
    weights = np.random.default_rng(0).standard_normal((4, 1, 3, 3)).astype(np.float32)
    nodes = [
        make.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        make.make_node("GlobalAveragePool", ["c"], ["g"]),
        make.make_node("Flatten", ["g"], ["y"]),
    ]
    values = [make.make_tensor_value_info(n, float32, s) for n, s in (("x", ["N", 1, "h", "w"]), ("y", ["N", 4]))]
    graph = make.make_graph(nodes, "net", values[:1], values[1:], [onnx.numpy_helper.from_array(weights, "w")])
    path = tmp_path / "net.onnx"
    onnx.save(make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=8), path)
    words = ("bench", "--model", path, "--backend", "sim", "--input-size")
    points = cli(*words, "8,8x12", "--format", "json").json()["sweep"]
    assert [point["input_shape"] for point in points] == [[1, 8, 8], [1, 8, 12]] and all(p["best"] for p in points)
    assert points[0]["total_us"] < points[1]["total_us"]
    shown = cli(*words, "8,8x12").out
    assert "trn2 float32 1x8x12: highest throughput" in shown and "1x8x8" in shown
    assert "is not a picture size" in cli(*words, "8x").err
    assert "--input-size requires an ONNX file" in cli("bench", "--model", "digits-cnn", "--input-size", "8").err
    assert "requires --model FILE.onnx" in cli("bench", "--input-size", "8").err

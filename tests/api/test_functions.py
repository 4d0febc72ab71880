"""`trninfer.classify` and `trninfer.predict`: all kinds of inputs and arguments."""

import asyncio
import dataclasses
import io
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import trninfer
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image
from small_inputs import write_model
from trninfer.models import Dense, Flatten, ImageInput, Network, Softmax, run_network
from trninfer.models.preprocess import open_image, preprocess


@pytest.fixture
def samples(request) -> list[str]:
    return sorted(str(path) for path in (request.config.rootpath / "samples").iterdir() if path.suffix != ".md")


@pytest.fixture
def pictures(samples) -> list[str]:
    return [path for path in samples if not path.endswith(".bin")][:3]


@pytest.fixture
def rows(request) -> np.ndarray:
    return np.fromfile(request.config.rootpath / "samples" / "digits-X.bin", "<f4").reshape(-1, 64)


def test_importing_it_imports_nothing_heavy() -> None:
    code = "import sys, trninfer; trninfer.__version__; print({m.split('.')[0] for m in sys.modules})"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert not any(f"'{name}'" in out for name in ("numpy", "PIL", "typer", "rich", "safetensors", "nki"))


def test_classifying_needs_no_command_line(pictures) -> None:
    code = (
        "import sys, trninfer; print(trninfer.classify(sys.argv[1:]).labels); "
        "print([m for m in ('typer', 'click', 'rich') if m in sys.modules], [m for m in sys.modules if '.app' in m])"
    )
    command = [sys.executable, "-c", code, *map(str, pictures)]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert out.splitlines()[1] == "[] []" and len(out.splitlines()[0].split(",")) >= len(pictures)


def test_result_has_all_reported_fields() -> None:
    for name in trninfer.__all__:
        assert getattr(trninfer, name) is not None and name in dir(trninfer)
    assert trninfer.simulator.run.__doc__
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = trninfer.nonsense  # type: ignore[attr-defined]


class Exporter:
    """An array of another library, which converts itself to NumPy."""

    def __init__(self, values: np.ndarray) -> None:
        self._values = values

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        return self._values


class Capsule:
    """The same, but exported only by DLPack."""

    def __init__(self, values: np.ndarray) -> None:
        self._values = values.copy()

    def __dlpack__(self, **options):
        return self._values.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._values.__dlpack_device__()


@pytest.mark.slow
def test_pictures_of_any_kind(pictures) -> None:
    opened = [open_image(path) for path in pictures]
    truth = tuple(Path(path).name[0] for path in pictures)
    model = trninfer.load_model("digits-cnn")
    prepared = np.stack([preprocess(image, model.network.input) for image in opened])
    golden = run_network(model.network, model.tensors, prepared).probabilities
    files = [open(path, "rb") for path in pictures]  # noqa: SIM115 (closed at the end)
    pixels = [np.asarray(image.convert("RGB")) for image in opened]
    objects = np.empty(3, object)
    objects[:] = pixels
    kinds = {
        "paths": pictures,
        "Paths": map(Path, pictures),
        "bytes": [Path(path).read_bytes() for path in pictures],
        "views": [memoryview(Path(path).read_bytes()) for path in pictures],
        "files": files,
        "images": opened,
        "pixels": pixels,
        "objects": objects,
        "prepared": list(prepared),
        "batch": prepared,
        "exporters": [Exporter(array) for array in prepared],
        "capsules": [Capsule(array) for array in prepared],
        "mixed": [pictures[0], opened[1], prepared[2]],
    }
    for kind, images in kinds.items():
        answers = trninfer.classify(images, model, batch_size=2, top_k=3)
        assert answers.labels == truth, kind
        assert [len(answer.top) for answer in answers.predictions] == [3, 3, 3]
        if kind not in ("pixels", "objects"):  # Pillow composites transparent pixels by its own rules
            found = [answer.probability for answer in answers.predictions]
            assert np.allclose(found, golden.max(axis=1), atol=1e-4)
        names = pictures if kind in ("paths", "Paths") else [0, 1, 2]
        assert kind == "mixed" or [answer.input for answer in answers.predictions] == names
    for file in files:
        file.close()


@pytest.mark.slow
def test_results_are_whole_and_frozen(pictures) -> None:
    answers = trninfer.classify(pictures[0], dtype="bfloat16", target="trn1", backend="sim")
    assert (answers.model, answers.backend, answers.target, answers.dtype) == ("digits-cnn", "sim", "trn1", "bfloat16")
    assert answers.latency_kind == "predicted" and len(answers.predictions) == 1
    assert answers.total_us == sum(layer.latency_us for layer in answers.layers) > 0
    assert answers.layers[-1].kernel == "dense" and sum(layer.share for layer in answers.layers) == pytest.approx(1)
    for thing in (answers, answers.predictions[0], answers.predictions[0].top[0], answers.layers[0]):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(thing, dataclasses.fields(thing)[0].name, None)


def test_no_pictures_at_all() -> None:
    answers = trninfer.classify([])
    assert answers.predictions == () and answers.layers == () and answers.total_us == 0


def test_pictures_are_read_as_far_as_batches_need_them(pictures) -> None:
    taken = 0

    def endless():
        nonlocal taken
        while True:
            taken += 1
            yield pictures[0] if taken < 6 else "/no/such/picture"

    with pytest.raises(trninfer.InputError, match=r"^/no/such/picture: no such file or folder$"):
        trninfer.classify(endless(), batch_size=2)
    assert taken <= 6 + 2 + 1


def cut_short() -> Image.Image:
    """Return a picture that Pillow has opened but cannot read to the end."""
    buffer = io.BytesIO()
    Image.effect_noise((50, 50), 30).save(buffer, "png")
    return Image.open(io.BytesIO(buffer.getvalue()[:-900]))


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (np.zeros((3, 3), np.int32), r"picture 0: an array of shape \[3, 3\] and dtype int32; pictures must be uint8"),
        (np.zeros((2, 3), np.float32), r"this network's own input is \[1, 32, 32\]"),
        (
            np.full((1, 32, 32), np.nan, np.float32),
            "picture 0: contains NaN, infinity or numbers outside the range of float32",
        ),
        (np.zeros((0, 5), np.uint8), "picture 0: an array"),
        (np.zeros((9, 9, 0, 4), np.uint8), "picture 0: an array"),
        ([3.5], "picture 0: float is not a picture"),
        (None, "picture 0: NoneType is not a picture"),
        ([[1, 2]], "picture 0: list is not a picture"),
        (b"junk", "picture 0: not a picture in a known format"),
        (io.StringIO("text"), "picture 0: the file was opened as text; open it with mode 'rb'"),
        (np.zeros((1, 32, 32), np.uint8), "layout='CHW' specifies channels first"),
        (np.zeros((32, 32, 1), np.float32), "use layout='HWC' for it"),
        (cut_short(), "picture 0: a corrupt or truncated picture"),
        ("/no/such/*.png", "no file matches"),
        ("/dev/zero", "/dev/zero: not a regular file"),
        (__file__, "not a picture in a known format"),
        ("a\0b", "not a valid file name"),
        (Image.new("L", (1, 1)), "picture 0: no ink found"),
        (np.ma.masked_less(np.ones((1, 32, 32), np.float32), 2), "picture 0: contains masked values"),
        ([np.ma.masked_equal(np.eye(9, dtype=np.uint8), 1)], "picture 0: contains masked values"),
    ],
)
def test_pictures_that_cannot_be_used(image, message) -> None:
    with pytest.raises(trninfer.InputError, match=message):
        trninfer.classify(image)


@given(
    arrays.arrays(
        st.sampled_from([np.uint8, np.float32, np.float64, np.int8, np.bool_, np.complex64]),
        arrays.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=6),
    )
)
def test_any_array_is_used_or_refused(image: np.ndarray) -> None:
    for run in (trninfer.classify, trninfer.predict):
        try:
            answers = run(image)  # type: ignore[operator]
        except trninfer.InputError as error:
            assert "\n" not in str(error)
        else:
            assert answers.predictions == () or len(answers.labels) in (1, len(image))  # a single picture, or several


def test_features_from_anywhere(rows, samples, tmp_path) -> None:
    model = trninfer.load_model("digits-ffnn")
    expected = run_network(model.network, model.tensors, rows).probabilities.argmax(axis=1)
    path = next(path for path in samples if path.endswith("digits-X.bin"))
    buffer = io.BytesIO()
    np.save(buffer, rows)
    buffer.seek(0)
    kinds = (
        path,
        Path(path),
        rows,
        rows.astype(np.float64),
        rows.tolist(),
        Path(path).read_bytes(),
        buffer,
        Exporter(rows),
        Capsule(rows),
        iter(rows),
        (block for block in np.array_split(rows, 5)),
        [Path(path).read_bytes()],
    )
    for features in kinds:
        answers = trninfer.predict(features, model, batch_size=200, top_k=1)
        assert answers.classes.dtype == np.int32 and np.array_equal(answers.classes, expected)
        assert [answer.input for answer in answers.predictions] == list(range(len(rows)))
    assert trninfer.predict(rows[0]).classes.tolist() == expected[:1].tolist()


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (np.zeros((2, 63)), r"shape \[2, 63\], but the network expects \[rows, 64\]"),
        (np.zeros((0, 64)), "contains no rows"),
        (np.full((2, 64), np.inf), "row 0: column 0 is inf"),
        ([[1.0] * 64, [2.0]], "features: "),
        (np.array(["x"]), "expected real numbers"),
        ("no such file.npy", "no such file.npy: no such file"),
        (np.ma.masked_less(np.ones((2, 64)), 2), "features: contains masked values"),
        ([np.ones(64), np.ma.masked_less(np.ones(64), 2)], "features: contains masked values"),
    ],
)
def test_features_that_cannot_be_used(features, message) -> None:
    with pytest.raises(trninfer.InputError, match=message):
        trninfer.predict(features)


def test_several_files_of_features_are_counted_on(rows, tmp_path) -> None:
    np.save(tmp_path / "a.npy", rows[:5])
    np.save(tmp_path / "b.npy", rows[5:9])
    expected = trninfer.predict(rows[:9]).labels
    for features in ([tmp_path / "a.npy", tmp_path / "b.npy"], str(tmp_path / "*.npy")):
        answers = trninfer.predict(features, batch_size=3)
        assert answers.labels == expected and [answer.input for answer in answers] == list(range(9))


def test_headers_are_reported(rows, tmp_path) -> None:
    path = tmp_path / "x.csv"
    np.savetxt(path, rows[:3], delimiter=",", header=",".join(map(str, range(64))), comments="")
    with pytest.warns(UserWarning, match=r"x\.csv: line 1 \(0, 1, 2, 3, 4, 5, \.\.\.\) is read as a header"):
        answers = trninfer.predict(path)
    assert len(answers) == 3 and len(answers.notes) == 1
    with pytest.warns(UserWarning, match="trained on 0 to 16"):  # the header is not a row of pixels
        assert len(trninfer.predict(path, header="no")) == 4
    with pytest.warns(UserWarning, match="trained on 0 to 16"):
        trninfer.predict(rows * 16)


def test_problems_are_collected_on_request(pictures, rows, tmp_path) -> None:
    (tmp_path / "a.png").write_bytes(b"junk")
    answers = trninfer.classify([pictures[0], str(tmp_path), b"junk", 7, pictures[1]], on_error="collect", batch_size=2)
    assert [answer.input for answer in answers] == pictures[:2]
    assert [problem.input for problem in answers.errors] == [str(tmp_path / "a.png"), 2, 3]
    holed = rows[:6].copy()
    holed[2, 0], holed[4, 1] = np.nan, np.inf
    answers = trninfer.predict(holed, on_error="collect", batch_size=2)
    assert [answer.input for answer in answers] == [0, 1, 3, 5]
    assert [(problem.input, problem.message[:22]) for problem in answers.errors] == [
        (2, "column 0 is nan; all v"),
        (4, "column 1 is inf; all v"),
    ]
    answers = trninfer.predict(["none.npy", rows[:1].tobytes()], on_error="collect")
    assert len(answers) == 1 and answers.errors[0] == trninfer.InputProblem("none.npy", "no such file")


def test_an_input_that_overflows_is_named_and_costs_the_others_nothing(rows) -> None:
    large = rows[:5].copy()
    large[3] = 1e9
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(trninfer.InputError, match=r"^row 3: the output of 'digits-ffnn' is not finite in float16"):
            trninfer.predict(large, dtype="float16")
        answers = trninfer.predict(large, dtype="float16", on_error="collect")
    assert [answer.input for answer in answers] == [0, 1, 2, 4] and [problem.input for problem in answers.errors] == [3]
    assert answers.layers[0].input_shape[0] == 4


def test_the_layout_is_specified_once(tmp_path) -> None:
    """Also for arrays from files instead of Python, and for numbers instead of pixels."""
    random = np.random.default_rng(0)
    layers = (Flatten("f"), Dense("d", 3 * 8 * 6, 4), Softmax("s"))
    for own in ("CHW", "HWC"):
        spec = ImageInput(3, 8, 6, "photo", (0.0,) * 3, (1.0,) * 3, 8, own)
        path = write_model(tmp_path / f"{own}.safetensors", Network("net", spec, layers, tuple("abcd")))
        numbers = random.random((2, 3, 8, 6), np.float32)
        stated = numbers if own == "CHW" else numbers.transpose(0, 2, 3, 1)
        expected = trninfer.classify(stated, path).probabilities
        assert np.array_equal(trninfer.classify(numbers, path, layout="CHW").probabilities, expected)
        last = np.ascontiguousarray(numbers.transpose(0, 2, 3, 1))
        assert np.array_equal(trninfer.classify(list(last), path, layout="HWC").probabilities, expected)
        np.save(tmp_path / "x.npy", last)
        assert np.array_equal(trninfer.classify(tmp_path / "x.npy", path, layout="HWC").probabilities, expected)
        with pytest.raises(trninfer.InputError, match="layout="):
            trninfer.classify(numbers[0] if own == "HWC" else last[0], path)
        pixels = random.integers(0, 256, (2, 20, 30, 3), np.uint8)
        shown = trninfer.classify(pixels, path)
        first = trninfer.classify(pixels.transpose(0, 3, 1, 2), path, layout="CHW")
        assert np.array_equal(first.probabilities, shown.probabilities)
    with pytest.raises(trninfer.ModelError, match="reads features; layout applies only to pictures"):
        trninfer.classify(pixels, "digits-ffnn", layout="CHW")


def test_tensors_of_pytorch(pictures, rows) -> None:
    torch = pytest.importorskip("torch")
    expected = trninfer.predict(rows[:4]).labels
    assert trninfer.predict(torch.from_numpy(rows[:4])).labels == expected
    assert trninfer.predict(torch.from_numpy(rows[:4]).double()).labels == expected
    with pytest.raises(trninfer.InputError, match=r"pass tensor.detach\(\)\.cpu\(\)\.float\(\)"):
        trninfer.predict(torch.from_numpy(rows[:4]).requires_grad_())
    pixels = torch.from_numpy(np.asarray(Image.open(pictures[0]).convert("RGB")).transpose(2, 0, 1).copy())
    assert trninfer.classify(pixels, layout="CHW").labels == (Path(pictures[0]).name[0],)


def test_tables_of_pandas(rows) -> None:
    pandas = pytest.importorskip("pandas")
    expected = trninfer.predict(rows[:4]).labels
    assert trninfer.predict(pandas.DataFrame(rows[:4])).labels == expected
    with pytest.raises(trninfer.InputError, match="features are of type object; expected real numbers"):
        trninfer.predict(pandas.DataFrame({"a": ["x"]}))


def test_other_mistakes(pictures, rows, monkeypatch) -> None:
    monkeypatch.setattr("trninfer.runtime.neuron.environment.neuron_devices", lambda: ())
    with pytest.raises(trninfer.ModelError, match="use predict"):
        trninfer.classify(pictures, "digits-ffnn")
    with pytest.raises(trninfer.ModelError, match="use classify"):
        trninfer.predict(rows, "digits-cnn")
    with pytest.raises(trninfer.ModelError, match="no such model"):
        trninfer.load_model("nonsense")
    with pytest.raises(trninfer.TargetError, match="trn9"):
        trninfer.predict(rows, target="trn9")
    with pytest.raises(trninfer.BackendUnavailable, match="no Neuron device"):
        trninfer.predict(rows, backend="neuron")
    assert issubclass(trninfer.OverflowedError, trninfer.InputError)


ODD = (0, -1, 1.5, True, None, "", "int8", b"x", [], {}, object(), "x" * 1000, float("nan"), 10**30, "a\nb")
NAMES = ("dtype", "target", "backend", "batch_size", "top_k", "cores", "cluster", "on_error")


@pytest.mark.parametrize("name", NAMES)
def test_arguments_of_any_kind_are_refused_in_one_line(rows, name) -> None:
    for value in ODD:
        if value is None and name in ("target", "cluster"):
            continue
        if (name == "cluster" and isinstance(value, str) and value) or (name == "top_k" and value == 10**30):
            continue  # a valid address; a top_k above the number of labels means all
        for call, inputs in ((trninfer.predict, rows[:1]), (trninfer.classify, [])):
            with pytest.raises(trninfer.TrninferError) as error:
                call(inputs, **{name: value})
            assert name in str(error.value) and "\n" not in str(error.value) and len(str(error.value)) < 200


def test_models_of_any_kind_are_refused_in_one_line(rows) -> None:
    for model in (None, 7, b"digits-ffnn", [], "nonsense", "a\0b", "/", ""):
        with pytest.raises(trninfer.TrninferError) as error:
            trninfer.predict(rows, model)  # type: ignore[arg-type]
        assert "\n" not in str(error.value)


def test_async_call_can_be_awaited_and_cancelled(rows) -> None:
    taken = []

    def endless():
        while True:
            taken.append(1)
            yield rows[:1]

    async def both() -> tuple[trninfer.Answers, trninfer.Answers]:
        return await asyncio.gather(trninfer.predict_async(rows[:3]), trninfer.classify_async([], backend="sim"))

    async def cancelled() -> None:
        running = asyncio.ensure_future(trninfer.predict_async(endless(), batch_size=1))
        while not taken:
            await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    answers, nothing = asyncio.run(both())
    assert answers.labels == trninfer.predict(rows[:3]).labels and len(nothing) == 0
    asyncio.run(cancelled())  # also waits for the thread
    assert taken


TABLE = "id,a,b,c,d,e,f,color\nx1,1,2,3,4,5,6,red\nx2,6,5,4,3,2,1,blue\nx3,0,0,nan,0,0,0,red\n"


def test_tables_have_ids_and_right_classes(feature_model, tmp_path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(TABLE)
    answers = trninfer.predict(
        path, model=feature_model, backend="sim", id_column="id", label_column="color", on_error="collect"
    )
    assert [answer.input for answer in answers] == ["x1", "x2"] and answers.errors[0].input == "x3"
    assert answers.score is not None and answers.score.total == 2
    assert answers.to_dict()["score"]["total"] == 2
    columns = ["a", "b", "c", "d", "e", "f"]
    named = trninfer.predict(path, model=feature_model, backend="sim", columns=columns, on_error="collect")
    assert [answer.input for answer in named] == [0, 1] and named.score is None
    assert np.array_equal(named.probabilities, answers.probabilities)
    with pytest.warns(UserWarning, match="used as the id"):
        found = trninfer.predict(path, model=feature_model, backend="sim", drop=["color"], on_error="collect")
    assert [answer.input for answer in found] == ["x1", "x2"]
    with pytest.raises(trninfer.InputError, match="has no column 'g'"):
        trninfer.predict(path, model=feature_model, backend="sim", columns=["g"])
    with pytest.raises(trninfer.ArgumentError, match="a list of column names"):
        trninfer.predict(path, model=feature_model, backend="sim", columns="abc")


def test_pictures_are_scored_by_their_names(picture_model) -> None:
    folder = Path(trninfer.__file__).parent / "samples"
    pictures = [folder / "2-colour.png", folder / "7-clean-print.png"]
    options = {"model": picture_model, "backend": "sim"}
    answers = trninfer.classify(pictures, labels="{label}-*.png", launches="layer", **options)
    assert answers.score is not None and answers.score.total == 2 and len(answers.layers) > 2
    assert answers.score.correct == sum(answer.label == Path(str(answer.input)).name[0] for answer in answers)
    with pytest.raises(trninfer.InputError, match="nowhere"):
        trninfer.classify(pictures, labels="nowhere.csv", **options)


def test_networks_in_eight_bits_have_their_own_pictures(picture_model) -> None:
    folder = Path(trninfer.__file__).parent / "samples"
    options = {"model": picture_model, "backend": "sim", "dtype": "float8_e4m3", "eight_bits": "all"}
    own = trninfer.classify(folder / "7-clean-print.png", calibrate=folder, **options)
    assert len(own) == 1 and own.run is not None
    used = own.run.arguments.launch_options(own.run.model)
    assert used.eight_bits == "all" and used.calibration is not None and "pictures of" in used.calibration.source
    with pytest.raises(trninfer.InputError, match="no readable picture"):
        trninfer.classify(folder / "7-clean-print.png", calibrate=folder / "none", **options)

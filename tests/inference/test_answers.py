"""The Python interface."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import trninfer
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image
from trninfer.models import run_network
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


def test_everything_that_is_told_is_there() -> None:
    for name in trninfer.__all__:
        assert getattr(trninfer, name) is not None and name in dir(trninfer)
    assert trninfer.simulator.run.__doc__
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = trninfer.nonsense  # type: ignore[attr-defined]


def test_pictures_of_any_kind(pictures) -> None:
    opened = [open_image(path) for path in pictures]
    truth = tuple(Path(path).name[0] for path in pictures)
    model = trninfer.load_model("digits-cnn")
    prepared = np.stack([preprocess(image, model.network.input) for image in opened])
    golden = run_network(model.network, model.tensors, prepared).probabilities
    kinds = {
        "paths": pictures,
        "Paths": map(Path, pictures),
        "images": opened,
        "pixels": [np.asarray(image.convert("RGB")) for image in opened],
        "prepared": list(prepared),
        "batch": prepared,
        "mixed": [pictures[0], opened[1], prepared[2]],
    }
    for kind, images in kinds.items():
        answers = trninfer.classify(images, model, batch_size=2, top_k=3)
        assert answers.labels == truth, kind
        assert [len(answer.top) for answer in answers.predictions] == [3, 3, 3]
        if kind != "pixels":  # transparency is laid over something, by Pillow's rules
            found = [answer.probability for answer in answers.predictions]
            assert np.allclose(found, golden.max(axis=1), atol=1e-4)
        names = pictures if kind in ("paths", "Paths") else [0, 1, 2]
        assert kind == "mixed" or [answer.input for answer in answers.predictions] == names


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

    with pytest.raises(trninfer.InputError, match=r"^/no/such/picture: no such file$"):
        trninfer.classify(endless(), batch_size=2)
    assert taken <= 6 + 2 + 1


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (np.zeros((3, 3), np.int32), r"picture 0: an array \[3, 3\] of int32; pictures are uint8"),
        (np.zeros((2, 3), np.float32), r"this network's own input is \[1, 32, 32\]"),
        (np.full((1, 32, 32), np.nan, np.float32), "picture 0: holds NaN or infinity"),
        (np.zeros((0, 5), np.uint8), "picture 0: an array"),
        (np.zeros((9, 9, 0, 4), np.uint8), "picture 0: an array"),
        ([3.5], "picture 0: float is no picture"),
        ("/dev/zero", "/dev/zero: not a regular file"),
        (__file__, "not a picture in a known format"),
        ("a\0b", "embedded null"),
        (Image.new("L", (1, 1)), "picture 0: no ink found"),
        (np.ma.masked_less(np.ones((1, 32, 32), np.float32), 2), "picture 0: holds masked values"),
        ([np.ma.masked_equal(np.eye(9, dtype=np.uint8), 1)], "picture 0: holds masked values"),
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
            assert answers.predictions == () or len(answers.labels) in (1, len(image))  # one picture, or several


def test_features_from_anywhere(rows, samples, tmp_path) -> None:
    model = trninfer.load_model("digits-ffnn")
    expected = run_network(model.network, model.tensors, rows).probabilities.argmax(axis=1)
    path = next(path for path in samples if path.endswith("digits-X.bin"))
    for features in (path, Path(path), rows, rows.astype(np.float64), rows.tolist()):
        answers = trninfer.predict(features, model, batch_size=200, top_k=1)
        assert answers.classes.dtype == np.int32 and np.array_equal(answers.classes, expected)
        assert [answer.input for answer in answers.predictions] == list(range(len(rows)))
    assert trninfer.predict(rows[0]).classes.tolist() == expected[:1].tolist()


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (np.zeros((2, 63)), r"shape \[2, 63\]; the network takes \[rows, 64\]"),
        (np.zeros((0, 64)), "holds no rows"),
        (np.full((2, 64), np.inf), "row 0, column 0 is inf"),
        ([[1.0] * 64, [2.0]], "features: "),
        (np.array(["x"]), "real numbers are needed"),
        ("no such file.npy", "no such file.npy: no such file"),
        (np.ma.masked_less(np.ones((2, 64)), 2), "features: holds masked values"),
        ([np.ones(64), np.ma.masked_less(np.ones(64), 2)], "features: holds masked values"),
    ],
)
def test_features_that_cannot_be_used(features, message) -> None:
    with pytest.raises(trninfer.InputError, match=message):
        trninfer.predict(features)


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
    with pytest.raises(trninfer.OverflowedError, match="not finite in float16"):
        trninfer.predict(rows * 1e9, dtype="float16")
    for wrong in ({"dtype": "int8"}, {"top_k": 0}, {"batch_size": 0}, {"backend": "gpu"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            trninfer.predict(rows, **wrong)

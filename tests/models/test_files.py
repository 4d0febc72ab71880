"""Model files: a saved file is read back, and invalid files are rejected."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file
from trninfer.models import Dense, FeatureInput, ModelError, Network, Softmax, load_model, save_model
from trninfer.models.files import StagedModel

NETWORK = Network("tiny", FeatureInput(3), (Dense("dense", 3, 2), Softmax("softmax")), ("no", "yes"))


def tensors() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "dense.weight": rng.normal(size=(3, 2)).astype(np.float32),
        "dense.bias": rng.normal(size=2).astype(np.float32),
    }


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.safetensors"
    save_model(path, NETWORK, tensors(), {"trained_on": "nothing"})
    return path


def test_round_trip(saved: Path) -> None:
    model = load_model(saved)
    assert model.network == NETWORK
    assert model.metadata["trained_on"] == "nothing"
    for name, tensor in tensors().items():
        assert model.tensors[name].dtype == np.float32
        np.testing.assert_array_equal(model.tensors[name], tensor)


def test_the_safetensors_library_reads_our_files(saved: Path) -> None:
    for name, tensor in load_file(saved).items():
        np.testing.assert_array_equal(tensor, tensors()[name])


def test_equal_models_have_equal_files(saved: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.safetensors"
    save_model(again, NETWORK, tensors(), {"trained_on": "nothing"})
    assert again.read_bytes() == saved.read_bytes()


def test_saving_is_whole_or_not_at_all(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = saved.read_bytes()

    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full_disk)
    with pytest.raises(OSError, match="No space"):
        save_model(saved, NETWORK, tensors(), {})
    assert saved.read_bytes() == before
    assert [file.name for file in saved.parent.iterdir()] == [saved.name]


def test_a_staged_model_gets_its_name_when_it_is_committed(saved: Path, tmp_path: Path) -> None:
    path = tmp_path / "new" / "staged.safetensors"
    path.parent.mkdir()
    with StagedModel(path, NETWORK, tensors(), {"trained_on": "nothing"}) as staged:
        assert not path.exists() and len(list(path.parent.iterdir())) == 1
        assert set(staged.model.tensors) == set(tensors()) and staged.model.network == NETWORK
        staged.commit()
    assert path.read_bytes() == saved.read_bytes()
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    path.unlink()
    for name, tensor in tensors().items():  # stored in the file, whatever its name
        mapped = staged.model.tensors[name]
        assert not mapped.flags.writeable and mapped.dtype == np.float32
        np.testing.assert_array_equal(mapped, tensor)


def test_a_staged_model_that_is_not_committed_leaves_nothing(saved: Path) -> None:
    before = saved.read_bytes()
    with pytest.raises(KeyError), StagedModel(saved, NETWORK, {n: 2 * t for n, t in tensors().items()}):
        raise KeyError
    assert saved.read_bytes() == before
    assert [file.name for file in saved.parent.iterdir()] == [saved.name]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda t: t.pop("dense.bias"), "the tensor 'dense.bias' is missing"),
        (lambda t: t.update(more=np.zeros(1, np.float32)), "'more' is not used by any layer"),
        (
            lambda t: t.update({"dense.bias": np.zeros(3, np.float32)}),
            r"has shape \[3\], but the network requires \[2\]",
        ),
        (lambda t: t.update({"dense.bias": np.array([0, np.nan], np.float32)}), "contains NaN or infinity"),
        (lambda t: t.update({"dense.bias": np.array([0, np.inf], np.float32)}), "contains NaN or infinity"),
        (lambda t: t.update({"dense.bias": np.zeros(2)}), "is of type 'F64'; allowed: F32, F16, BF16"),
    ],
)
def test_tensors_that_do_not_fit(tmp_path: Path, change, says: str) -> None:
    content = tensors()
    change(content)
    path = tmp_path / "bad.safetensors"
    save_file(content, path, {"trninfer_format": "1", "network": NETWORK.to_json()})
    with pytest.raises(ModelError, match=says):
        load_model(path)


@pytest.mark.parametrize(
    ("metadata", "says"),
    [
        (None, "no trninfer network in its metadata"),
        ({"network": NETWORK.to_json()}, "no trninfer network in its metadata"),
        ({"trninfer_format": "3", "network": "{}"}, "format version '3'; this release reads 1 and 2"),
        ({"trninfer_format": "1", "network": "{}"}, "the field 'name' is missing"),
    ],
)
def test_foreign_metadata(tmp_path: Path, metadata, says: str) -> None:
    path = tmp_path / "foreign.safetensors"
    save_file(tensors(), path, metadata)
    with pytest.raises(ModelError, match=says):
        load_model(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(data=st.data())
def test_no_damage_escapes_as_another_error(saved: Path, data: st.DataObject) -> None:
    raw = saved.read_bytes()
    damaged = bytearray(raw[: data.draw(st.integers(0, len(raw)))])
    for _ in range(data.draw(st.integers(0, 4))):
        if damaged:
            damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    path = saved.with_name("damaged.safetensors")
    path.write_bytes(damaged)
    try:
        model = load_model(path)
    except ModelError as error:
        assert "\n" not in str(error)
    else:  # the damage hit a weight, or a string without constraints
        assert all(np.isfinite(tensor).all() for tensor in model.tensors.values())


def test_names_and_paths_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(
        ModelError, match=r"no such model; use a bundled model .*digits-cnn, digits-detect, digits-ffnn"
    ):
        load_model("digits-rnn")
    with pytest.raises(ModelError, match="not a file"):
        load_model(tmp_path)
    with pytest.raises(ModelError, match=r"cannot be read|no such model"):
        load_model("x" * 5000)
    with pytest.raises(ModelError, match=r"cannot be read|no such model"):
        load_model("nul\0byte")
    with pytest.raises(ModelError, match="no such model"):
        load_model("../weights/digits-cnn")

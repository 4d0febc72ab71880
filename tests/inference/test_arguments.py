"""Arguments of Python functions: valid values, and their conversion."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trninfer.inference.arguments import MAX_BATCH_SIZE, MAX_CORES, RunArguments, in_layout
from trninfer.models import Dense, FeatureInput, Flatten, ImageInput, Model, Network, Softmax, load_model
from trninfer.models.errors import ArgumentError, ModelError
from trninfer.models.inputs import NamedInput, SeveralInputs
from trninfer.runtime.backend import TargetError


class Unprintable:
    def __repr__(self) -> str:
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"dtype": "float64"}, "dtype is 'float64'; allowed: float32, bfloat16, float16, float8_e4m3"),
        ({"dtype": None}, "dtype is None; allowed:"),
        ({"dtype": ["float32"]}, r"dtype is \['float32'\]; allowed:"),
        ({"backend": "gpu"}, "backend is 'gpu'; allowed: auto, neuron, sim"),
        ({"on_error": "ignore"}, "on_error is 'ignore'; allowed: raise, collect"),
        ({"layout": "NHWC"}, "layout is 'NHWC'; allowed: CHW, HWC"),
        ({"layout": ""}, "layout is ''; allowed: CHW, HWC"),
        ({"target": 2}, "target is 2; allowed: trn1, trn2, trn3 and None"),
        ({"target": ""}, "target is ''; allowed:"),
        ({"target": "x" * 21}, "target is 'x{21}'; allowed:"),
        ({"cluster": ""}, "cluster is ''; expected the address of a Ray cluster, or None"),
        ({"cluster": True}, "cluster is True; expected the address"),
        ({"batch_size": 0}, "batch_size is 0; expected an integer from 1 to 65536"),
        ({"batch_size": MAX_BATCH_SIZE + 1}, "batch_size is 65537; expected an integer from 1 to 65536"),
        ({"batch_size": 1.0}, "batch_size is 1.0; expected an integer"),
        ({"batch_size": True}, "batch_size is True; expected an integer"),
        ({"top_k": -1}, "top_k is -1; expected an integer of at least 1"),
        ({"cores": MAX_CORES + 1}, "cores is 4097; expected an integer from 1 to 4096"),
        ({"lnc": 3}, "lnc is 3; expected an integer from 1 to 2"),
        ({"top_k": "x" * 100}, "top_k is a str; expected an integer"),
        ({"top_k": "\x1b"}, "top_k is '.x1b'; expected an integer"),
        ({"top_k": Unprintable()}, "top_k is a Unprintable; expected an integer"),
    ],
)
def test_invalid_arguments_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=f"^{message}"):
        RunArguments(**given)


def test_valid_arguments_are_accepted() -> None:
    limits = RunArguments("float8_e4m3", "trn1", "sim", MAX_BATCH_SIZE, 10**9, MAX_CORES, "auto", "HWC", "collect", 2)
    assert limits.is_shared and not RunArguments(cores=1).is_shared
    assert RunArguments(cores=2).is_shared and RunArguments(cluster="a:1").is_shared


PHOTO = ImageInput(3, 2, 4, "photo", (0.0,) * 3, (1.0,) * 3, 4)


def model_of(spec: Any) -> Model:
    layers = (Dense("d", 2, 2),) if isinstance(spec, FeatureInput) else (Flatten("f"), Dense("d", 24, 2), Softmax("s"))
    return Model(Network("net", spec, layers, ("a", "b")), {}, {"key": "value"})


def test_arrays_of_pictures_have_the_layout_asked_for() -> None:
    changed = in_layout(model_of(PHOTO), "HWC")
    assert isinstance(changed.network.input, ImageInput) and changed.network.input.array_shape == (2, 4, 3)
    assert changed.network.input.shape == (3, 2, 4) and changed.metadata == {"key": "value"}
    assert in_layout(changed, "CHW").network.input == PHOTO
    with pytest.raises(ModelError, match=r"^model 'net' reads features; layout applies only to pictures$"):
        in_layout(model_of(FeatureInput(2)), "CHW")


def test_of_several_inputs_the_pictures() -> None:
    spec = SeveralInputs((NamedInput("left", PHOTO), NamedInput("bias", FeatureInput(2))))
    network = Network("net", spec, (Dense("d", 26, 2), Softmax("s")), ("a", "b"))
    parts = in_layout(Model(network, {}, {}), "HWC").network.input
    assert isinstance(parts, SeveralInputs) and parts.parts[1].input == FeatureInput(2)
    assert isinstance(parts.parts[0].input, ImageInput) and parts.parts[0].input.layout == "HWC"


def test_models_by_name_by_file_and_loaded(feature_model: Path, picture_model: Path) -> None:
    assert RunArguments().load("digits-ffnn").network.name == "digits-ffnn"
    assert RunArguments().load(feature_model).network.name == "tiny-ffnn"
    loaded = load_model(picture_model)
    assert RunArguments().load(loaded) is loaded
    turned = RunArguments(layout="HWC").load(str(picture_model)).network.input
    assert isinstance(turned, ImageInput) and turned.layout == "HWC"
    for wrong in (3, None, b"digits-cnn"):
        with pytest.raises(ArgumentError, match=r"; expected a bundled name, the path of a file or a Model$"):
            RunArguments().load(wrong)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="no such model"):
        RunArguments().load("nothing")


def test_a_session_as_it_was_asked_for(feature_model: Path) -> None:
    arguments = RunArguments("bfloat16", "trn2", "sim", batch_size=3, lnc=2)
    model = load_model(feature_model)
    with arguments.open(model) as session:
        assert (session.dtype, session.batch_size) == ("bfloat16", 3)  # type: ignore[attr-defined]
        assert (session.info.target, session.info.lnc, session.info.name) == ("trn2", 2, "sim")
        assert [answer.size for answer in session.stream([np.zeros((3, 6), np.float32)])] == [3]
    kept = RunArguments(backend="sim").session(model, keep_timelines=True).time(1)
    assert kept.timelines and not RunArguments(backend="sim").session(model).time(1).timelines
    with pytest.raises(TargetError, match="trn9"):
        RunArguments(target="trn9", backend="sim").session(model)  # type: ignore[arg-type]

"""Networks with several inputs, each fixed or streamed."""

from pathlib import Path

import numpy as np
import pytest
from small_inputs import draw_picture
from trninfer.inference import several
from trninfer.inference.several import (
    FixedInputs,
    PackedBatches,
    find_streamed,
    given_batches,
    given_names,
    name_example,
    read_given,
)
from trninfer.models.errors import InputError
from trninfer.models.inputs import FeatureInput, ImageInput, NamedInput, SeveralInputs

GREY = ImageInput(1, 2, 2, "none", (0.0,), (1.0,))
SPEC = SeveralInputs(
    (NamedInput("left", GREY), NamedInput("bias", FeatureInput(2)), NamedInput("more", FeatureInput(1)))
)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """Write three pictures, and three rows of features."""
    np.save(tmp_path / "left.npy", np.arange(12, dtype=np.float32).reshape(3, 1, 2, 2))
    np.save(tmp_path / "one.npy", np.arange(4, dtype=np.float32).reshape(1, 2, 2))
    np.save(tmp_path / "bias.npy", np.array([[1, 2], [3, 4], [5, 6]], np.float64))
    return {path.stem: str(path) for path in tmp_path.iterdir()}


def test_pictures_rows_and_numbers(files: dict[str, str]) -> None:
    given = read_given(SPEC, {"left": files["left"], "bias": files["bias"], "more": "-1.5e2"})
    assert given.count == 3 and {name: array.dtype for name, array in given.arrays.items()} == dict.fromkeys(
        ("left", "bias", "more"), np.dtype(np.float32)
    )
    assert given.arrays["left"].shape == (3, 1, 2, 2) and given.arrays["more"].tolist() == [[-150.0]]
    rows = given.rows(1, 3)
    assert rows["bias"].tolist() == [[3, 4], [5, 6]] and rows["more"].tolist() == [[-150], [-150]]
    one = read_given(SPEC, {"left": files["one"]})
    assert one.arrays["left"].shape == (1, 1, 2, 2) and one.count == 1 and FixedInputs({}, {}).count == 1


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ({"up": "1"}, "the network has no input 'up'; its inputs are 'left', 'bias', 'more'"),
        ({"bias": "1"}, "input 'bias': 1 numbers; expected 2"),
        ({"bias": "1,2,3"}, "input 'bias': 3 numbers; expected 2"),
        ({"bias": "1,inf"}, "input 'bias': '1,inf' is neither a file of features"),
        ({"bias": "1_0,2"}, "input 'bias': '1_0,2' is neither a file of features"),
        ({"bias": ""}, "input 'bias': '' is neither a file of features"),
        ({"bias": "none.npy"}, "input 'bias': none.npy: no such file"),
        ({"left": "none.png"}, "input 'left': "),
    ],
)
def test_unusable_inputs_are_refused(sources: dict[str, str], message: str) -> None:
    with pytest.raises(InputError) as error:
        read_given(SPEC, sources)
    assert str(error.value).startswith(message)


def test_examples_that_do_not_pair_up(files: dict[str, str], tmp_path: Path, monkeypatch) -> None:
    np.save(tmp_path / "two.npy", np.zeros((2, 2), np.float32))
    with pytest.raises(InputError, match=r"not have the same number of examples: left has 3, bias has 2$"):
        read_given(SPEC, {"left": files["left"], "bias": str(tmp_path / "two.npy")})
    monkeypatch.setattr(several, "MAX_GIVEN_BYTES", 23)  # three rows of two float32 numbers take 24 bytes
    with pytest.raises(InputError, match=r"^input 'bias': 3 rows; the limit is 2$"):
        read_given(SPEC, {"bias": files["bias"]})
    monkeypatch.setattr(several, "MAX_GIVEN_BYTES", 24)
    assert read_given(SPEC, {"bias": files["bias"]}).count == 3


def test_the_one_that_pictures_are_read_for(files: dict[str, str]) -> None:
    rest = {"bias": "1,2", "more": "3"}
    assert find_streamed(SPEC, read_given(SPEC, rest)) == SPEC.parts[0]
    assert find_streamed(SPEC, read_given(SPEC, {**rest, "left": files["left"]})) is None
    for sources, message in (
        ({"bias": "1,2"}, "the network has 3 inputs; missing: 'left', 'more'"),
        ({"left": files["one"], "bias": "1,2"}, "missing: 'more'"),
        ({**rest, "bias": files["bias"]}, "3 examples are given, but 'left' is missing"),
    ):
        with pytest.raises(InputError, match=message):
            find_streamed(SPEC, read_given(SPEC, sources))


def test_given_inputs_are_packed_beside_pictures(files: dict[str, str]) -> None:
    given = read_given(SPEC, {"bias": "1,2", "more": "3"})
    pictures = np.arange(12, dtype=np.float32).reshape(3, 1, 2, 2)
    stream = [(["a.png", "b.png"], pictures[:2]), (["c.png"], pictures[2:])]
    (names, rows), (last, _) = PackedBatches(SPEC, given, "left", stream)
    assert rows.tolist() == [[0, 1, 2, 3, 1, 2, 3], [4, 5, 6, 7, 1, 2, 3]] and rows.dtype == np.float32
    assert [name.sources for name in names] == [
        {"left": name, "bias": "1,2", "more": "3"} for name in ("a.png", "b.png")
    ]
    assert last == ["left=c.png, bias=1,2, more=3"] == [name_example(SPEC, given, "left", "c.png")]


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_examples_of_which_all_is_given(files: dict[str, str], size: int) -> None:
    given = read_given(SPEC, {"left": files["left"], "bias": files["bias"], "more": "9"})
    names = given_names(SPEC, given)
    assert names[1].sources == {"left": f"{files['left']}[1]", "bias": f"{files['bias']}[1]", "more": "9"}
    found = list(given_batches(SPEC, given, size, {names[1]}))
    assert [name for batch, _ in found for name in batch] == [names[0], names[2]]
    assert np.concatenate([rows for _, rows in found]).tolist() == [[0, 1, 2, 3, 1, 2, 9], [8, 9, 10, 11, 5, 6, 9]]
    assert max(len(batch) for batch, _ in found) == min(size, 2)
    assert list(given_batches(SPEC, given, size, set(names))) == []


def test_a_picture_file_for_an_input(tmp_path: Path) -> None:
    photo = SeveralInputs((NamedInput("left", ImageInput(1, 16, 16, "digit", (0.0,), (1.0,))), SPEC.parts[1]))
    given = read_given(photo, {"left": str(draw_picture(tmp_path / "x.png"))})
    assert given.arrays["left"].shape == (1, 1, 16, 16) and 0 < given.arrays["left"].mean() < 1

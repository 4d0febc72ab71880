"""Pictures that are decoded by workers."""

import pickle
import threading

import numpy as np
import pytest
from PIL import Image
from trninfer.inference import shipping
from trninfer.inference.pictures import PictureBatches
from trninfer.inference.shipping import PictureSources, decode_sources, decoder
from trninfer.models.inputs import ImageInput

SPEC = ImageInput(1, 16, 16, "digit", (0.0,), (1.0,))


@pytest.fixture
def names(tmp_path, monkeypatch) -> list[str]:
    """Return the names of a picture, a text file, a missing file, and a file with two arrays."""
    monkeypatch.chdir(tmp_path)
    for number in range(3):
        pixels = np.full((20, 30), 255, np.uint8)
        pixels[3:17, 10 + number : 14 + number] = 0
        Image.fromarray(pixels).save(tmp_path / f"{number}.png")
    (tmp_path / "text.png").write_text("no picture", encoding="utf-8")
    np.save(tmp_path / "two.npy", np.random.default_rng(0).random((2, 1, 16, 16), np.float32))
    return ["0.png", "text.png", "1.png", "none.png", "2.png", "two.npy"]


@pytest.mark.parametrize("as_bytes", [False, True])
def test_workers_make_of_sources_what_is_read_here(names, as_bytes, tmp_path, monkeypatch) -> None:
    here = PictureBatches(names, SPEC, 2)
    expected = np.concatenate([values for _, values in here])
    sources = PictureSources(names, SPEC, 2, as_bytes)
    batches = list(sources)
    monkeypatch.chdir("/")  # a worker runs in another folder
    decode = pickle.loads(pickle.dumps(decoder(SPEC)))
    pictures, problems = [], {problem.input: problem.message for problem in sources.problems}
    for batch, values in batches:
        decoded, failures = decode(values)
        pictures.append(decoded)
        problems.update({batch[position]: reason for position, reason in failures.items()})
    np.testing.assert_array_equal(np.concatenate(pictures), expected)
    told = [name for batch, _ in batches for name in batch]
    assert told[-2:] == ["two.npy[0]", "two.npy[1]"]
    assert set(problems) == {"text.png", "none.png"} == {problem.input for problem in here.problems}
    assert [len(batch) for batch, _ in batches] == (
        [2, 2, 2] if as_bytes else [2, 2, 2, 1]
    )  # the missing file is reported here


def test_a_worker_takes_one_input_for_a_source(names) -> None:
    pictures, failures = decode_sources(SPEC, ["two.npy", "0.png"])
    assert len(pictures) == 1 and "2 arrays" in failures[0]


def test_inputs_answered_earlier_are_left_out(names) -> None:
    batches = list(PictureSources(names, SPEC, 9, False, answered={"0.png", "two.npy[0]"}))
    assert batches[0][0] == ["text.png", "1.png", "none.png", "2.png", "two.npy[1]"]


def test_a_batch_of_nothing_that_can_be_used() -> None:
    pictures, failures = decode_sources(SPEC, [b"", b"no picture"])
    assert pictures.shape == (0, *SPEC.shape) and list(failures) == [0, 1] and all(failures.values())


def test_a_file_that_is_too_large_is_not_sent(names, monkeypatch) -> None:
    for module in ("shipping", "pictures"):
        monkeypatch.setattr(f"trninfer.inference.{module}.MAX_BYTES", 5)
    sources = PictureSources(["0.png"], SPEC, 2, True)
    assert list(sources) == [] and "the limit for a picture file" in sources.problems[0].message


def test_pictures_that_take_too_long_when_they_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = [np.zeros(SPEC.shape, np.float32)] * 2
    decode, go = shipping._decode, threading.Event()

    def slow(spec: ImageInput, source: np.ndarray) -> np.ndarray:
        if source is arrays[0]:
            go.wait(60)
        return decode(spec, source)

    monkeypatch.setattr(shipping, "_decode", slow)
    arrays[1] = arrays[1] + 1
    try:
        pictures, failures = pickle.loads(pickle.dumps(decoder(SPEC, 0.5)))(arrays)
    finally:
        go.set()
    assert failures == {0: "not decoded within 0.5 seconds"} and pictures.tolist() == [arrays[1].tolist()]

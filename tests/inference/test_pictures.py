"""Batches of pictures, decoded ahead."""

import io
import os
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from trninfer.inference import pictures
from trninfer.inference.pictures import PictureBatches, decode_ahead, examples, read_picture
from trninfer.inference.python_inputs import PictureReader
from trninfer.inference.several import read_given
from trninfer.inference.shipping import decode_sources
from trninfer.models.errors import InputError
from trninfer.models.inputs import ImageInput, NamedInput, SeveralInputs
from trninfer.models.preprocess import open_image

SPEC = ImageInput(3, 5, 4, "none", (0.0,) * 3, (1.0,) * 3, layout="CHW")


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape)


def test_decoding_ahead_keeps_order_and_bounds() -> None:
    begun: list[int] = []

    def decode(number: int) -> np.ndarray:
        begun.append(number)
        if number % 5 == 3:
            raise InputError(f"bad {number}")
        return np.full(1, number)

    for threads in (1, 3):
        begun.clear()
        taken = 0
        for number, values in decode_ahead(range(40), decode, 4, threads):
            assert number == taken and len(begun) <= taken + 5
            assert str(values) == f"bad {number}" if number % 5 == 3 else values == number
            taken += 1
        assert taken == 40


def test_decoding_ahead_stops_with_the_consumer() -> None:
    def decode(number: int) -> np.ndarray:
        return np.zeros(1)

    before = set(threading.enumerate())
    stream = decode_ahead(range(1000), decode, 4, 2)
    next(stream)
    ours = set(threading.enumerate()) - before
    stream.close()  # type: ignore[attr-defined]
    for thread in ours:
        thread.join(60)
    assert len(ours) == 2 and not any(thread.is_alive() for thread in ours)


def test_the_inputs_of_a_batch_have_numbers_and_may_be_left_out(tmp_path: Path) -> None:
    np.save(tmp_path / "many.npy", numbers(5, 3, 5, 4))
    np.save(tmp_path / "one.npy", numbers(3, 5, 4))
    names = [str(tmp_path / name) for name in ("many.npy", "one.npy", "none.npy")]
    batches = PictureBatches(names, SPEC, 2, frozenset({f"{names[0]}[1]"}))
    found = [(batch_names, batch.shape) for batch_names, batch in batches]
    assert [name for batch_names, _ in found for name in batch_names] == [
        *(f"{names[0]}[{number}]" for number in (0, 2, 3, 4)),
        names[1],
    ]
    assert [shape for _, shape in found] == [(2, 3, 5, 4), (2, 3, 5, 4), (1, 3, 5, 4)]
    assert [problem.input for problem in batches.problems] == [names[2]]


GREY = ImageInput(1, 2, 2, "photo", (0.5,), (0.25,), 2)


def grey(value: int) -> bytes:
    file = io.BytesIO()
    Image.new("L", (2, 2), value).save(file, "PNG")
    return file.getvalue()


def test_a_picture_of_a_file_or_of_standard_input(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "x.png").write_bytes(grey(51))
    expected = np.full((1, 2, 2), (0.2 - 0.5) / 0.25, np.float32)
    for path in (tmp_path / "x.png", str(tmp_path / "x.png")):
        found = read_picture(path, GREY)
        assert found.dtype == np.float32 and np.allclose(found, expected, atol=1e-6)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(grey(51))))
    assert np.allclose(read_picture("-", GREY), expected, atol=1e-6)
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InputError, match=r"^standard input is not a pipe$"):
        read_picture("-", GREY)


def test_standard_input_is_read_by_the_caller_and_decoded_within_the_time(monkeypatch) -> None:
    """Ctrl-C reaches the caller; a thread decodes the picture on standard input as it does others."""
    threads = []

    class Pipe(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            threads.append(threading.current_thread())
            return super().read(size)

    for slow, seconds, said in ((0, 60, []), (5, 0.05, ["not decoded within 0.05 seconds"])):
        monkeypatch.setattr(pictures, "open_image", lambda file, slow=slow: time.sleep(slow) or open_image(file))
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Pipe(grey(51))))
        batches = PictureBatches(["-"], GREY, 1, seconds=seconds)
        assert [names for names, _ in batches] == ([] if said else [["-"]])
        assert [problem.message for problem in batches.problems] == said
    assert set(threads) == {threading.current_thread()}
    monkeypatch.setattr(sys, "stdin", None)
    batches = PictureBatches(["-"], GREY, 1)
    assert not list(batches) and "standard input is not a pipe" in batches.problems[0].message


def test_every_reader_of_pictures_has_a_time_limit(tmp_path: Path, monkeypatch) -> None:
    """Calibration, several inputs, and the Python interface, which had no time limit."""
    limits: list[float | None] = []
    monkeypatch.setattr(pictures, "wait_for", lambda result, seconds: limits.append(seconds) or result.result())
    (tmp_path / "x.png").write_bytes(grey(51))
    list(PictureBatches([str(tmp_path / "x.png")], GREY, 1))
    list(PictureReader([grey(51)], GREY, 1, None, lambda name, why: None))
    read_given(
        SeveralInputs((NamedInput("left", GREY), NamedInput("right", GREY))), {"left": str(tmp_path / "x.png")}, 3.0
    )
    decode_sources(GREY, [grey(51)])
    assert limits == [10.0, 10.0, 3.0, 10.0]


def test_a_fault_is_raised_when_its_turn_comes() -> None:
    def decode(number: int) -> np.ndarray:
        return np.array([6 // number])

    taken = []
    with pytest.raises(ZeroDivisionError):
        for number, _ in decode_ahead([3, 2, 0, 1], decode, 3, 2):
            taken.append(number)
    assert taken == [3, 2]


def test_examples_have_the_numbers_of_their_file() -> None:
    batch = np.arange(6.0).reshape(2, 3, 1, 1)
    assert [(name, values.ravel().tolist()) for name, values in examples("x.npy", batch)] == [
        ("x.npy[0]", [0, 1, 2]), ("x.npy[1]", [3, 4, 5]),
    ]  # fmt: skip
    assert [name for name, _ in examples("x.npy", batch[0])] == ["x.npy"]


@pytest.mark.parametrize(
    ("count", "size", "sizes"), [(0, 3, []), (1, 3, [1]), (3, 3, [3]), (4, 3, [3, 1]), (3, 1, [1] * 3)]
)
def test_batches_are_full_but_for_the_last(
    tmp_path: Path, count: int, size: int, sizes: list[int], monkeypatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    for number in range(count):
        (tmp_path / f"{number}.png").write_bytes(grey(10 * number))
    (tmp_path / "bad.png").write_bytes(b"junk")
    names = [str(tmp_path / f"{number}.png") for number in range(count)]
    batches = PictureBatches([str(tmp_path / "bad.png"), *names], GREY, size)
    found = list(batches)
    assert [len(batch) for _, batch in found] == sizes and [name for batch, _ in found for name in batch] == names
    assert [values[0, 0, 0] for _, batch in found for values in batch] == pytest.approx(
        [(10 * number / 255 - 0.5) / 0.25 for number in range(count)], abs=1e-5
    )
    assert [problem.input for problem in batches.problems] == [str(tmp_path / "bad.png")]
    assert batches.problems[0].message.startswith("not a picture in a known format")


def test_a_slow_picture_does_not_affect_the_others() -> None:
    go = threading.Event()

    def decode(number: int) -> np.ndarray:
        if number in (0, 2):
            go.wait(60)
        return np.full(1, number)

    try:
        found = dict(decode_ahead(range(5), decode, 2, 1, seconds=0.5))
    finally:
        go.set()
    slow = [number for number, value in found.items() if isinstance(value, InputError)]
    assert slow == [0, 2] and str(found[0]) == "not decoded within 0.5 seconds"
    assert [int(found[number][0]) for number in (1, 3, 4)] == [1, 3, 4]

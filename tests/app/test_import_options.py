"""The options of `import`, and the parsing of numbers, sizes and labels."""

import os
from pathlib import Path

import pytest
from trninfer.app import import_options
from trninfer.app.errors import UsageError
from trninfer.app.import_options import InputOptions, NetworkOptions
from trninfer.models.importing import ImportOptions, PreprocessingOptions


def test_unspecified_options_are_none() -> None:
    assert InputOptions().read() == PreprocessingOptions()
    assert NetworkOptions().read() == ImportOptions()


def test_every_option_has_its_place() -> None:
    found = InputOptions(
        pictures="photo", invert=True, input_range="-1,1.5", mean="1e-3,2,3", std="4", channel_order="bgr", resize=40,
        resize_mode="pad", filter="lanczos", input_size="3x129",
    ).read()  # fmt: skip
    assert found == PreprocessingOptions(
        input_range=(-1.0, 1.5), mean=(0.001, 2.0, 3.0), std=(4.0,), resize=40, pictures="photo",
        invert=True, channel_order="bgr", size=(3, 129), resize_mode="pad", filter="lanczos",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"input_range": "1"}, "--input-range 1: expected two numbers, such as 0,255"),
        ({"input_range": "1,2,3"}, "--input-range 1,2,3: expected two numbers"),
        ({"mean": "a"}, "--mean a: expected numbers separated by commas"),
        ({"mean": "1,"}, "--mean 1,: expected numbers"),
        ({"mean": ""}, "--mean : expected numbers"),
        ({"std": "1_0"}, "--std 1_0: expected numbers"),
        ({"std": "\u0661"}, "--std \u0661: expected numbers"),
        ({"std": "inf"}, "--std inf: expected finite numbers"),
        ({"mean": "0,nan"}, "--mean 0,nan: expected finite numbers"),
        *(({"input_size": size}, f"--input-size {size}: expected height and width, such as 224x224") for size in
          ("12", "0x5", "5x0", "5X5", "5x5x5", "-1x5", "100000x1", "\u0661x5", "5x5\n", "")),
    ],
)  # fmt: skip
def test_text_that_is_not_what_it_should_be(options: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError) as error:
        InputOptions(**options).read()  # type: ignore[arg-type]
    assert str(error.value).startswith(message)


def test_sides_of_any_length() -> None:
    assert InputOptions(input_size="1x99999").read().size == (1, 99999)
    assert InputOptions(input_size="007x1").read().size == (7, 1)


def test_outputs_and_the_files_beside_the_network(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = NetworkOptions(
        output_name=["a", "b"], output_kind="values", activation="tanh", layers="fc1", unchecked=True
    )
    read = found.read()
    assert (read.output_names, read.output_kind, read.activation, read.layers) == (("a", "b"), "values", "tanh", "fc1")
    assert read.unchecked and NetworkOptions().read().output_names == ()
    none = NetworkOptions(preprocessor=Path("none"))
    assert none.read() == ImportOptions(ignores_beside=True)
    (tmp_path / "none").mkdir()  # a folder with that name
    assert none.read().preprocessor == Path("none") and not none.read().ignores_beside


def labels(text: str | None) -> tuple[str, ...] | None:
    return NetworkOptions(labels=text).read_labels()


def test_labels_of_files(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("cat\nd\u00f6g\n", encoding="utf-8")
    (tmp_path / "a.json").write_text('["cat", "dog"]')
    assert labels(None) is None and labels("a.txt") == ("cat", "d\u00f6g") and labels("a.json") == ("cat", "dog")
    names = labels("imagenet")
    assert names is not None and len(names) == 1000
    (tmp_path / "imagenet").write_text("mine\n")
    assert labels("imagenet") == ("mine",)


@pytest.mark.skipif(not os.path.exists("/dev/stdin"), reason="needs /dev/stdin")
def test_labels_of_a_pipe() -> None:
    reading, writing = os.pipe()
    before = os.dup(0)
    try:
        os.write(writing, b"cat\ndog\n")
        os.close(writing)
        os.dup2(reading, 0)
        assert labels("-") == ("cat", "dog")
    finally:
        os.dup2(before, 0)
        os.close(before)
        os.close(reading)


def test_labels_that_cannot_be_read(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(import_options, "MAX_LABEL_BYTES", 8)
    Path("a.txt").write_bytes(b"cat\ndog\n")
    assert labels("a.txt") == ("cat", "dog")
    Path("b.txt").write_bytes(b"cat\ndogs\n")
    Path("c.json").write_bytes(b"{")
    for name, message in (
        ("b.txt", "the file is larger than 0 MiB; expected one line for each class"),
        ("c.json", ""), ("none.txt", "no such file"), (".", "neither a regular file nor a pipe"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=f"^--labels {name}: {message}") as error:
            labels(name)
        assert "\n" not in str(error.value)

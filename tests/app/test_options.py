"""Options shared by commands: valid combinations, and the files that they may name."""

from pathlib import Path

import pytest
from trninfer.app.errors import UsageError
from trninfer.app.options import AnswerOptions, PictureOptions, RowOptions, RunOptions, check_eight_bits, output_path

OUT = Path("answers.csv")


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Change to a folder in which files may be written."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (RunOptions, {"calibrate": Path(".")}, "--calibrate requires --dtype float8_e4m3, not float32"),
        (
            RunOptions,
            {"eight_bits": "all", "dtype": "float16"},
            "--eight-bits requires --dtype float8_e4m3, not float16",
        ),
        (RunOptions, {"csv_safe": True}, "--csv-safe requires --format csv"),
        (
            RunOptions,
            {"lnc": 2, "launches": "layer"},
            "--launches layer runs every kernel on one NeuronCore; omit",
        ),
        (RunOptions, {"output": Path("no/x")}, "--output no/x: the folder"),
        (RunOptions, {"trace": Path("x"), "report_file": Path("x")}, "--trace and --report both write x"),
        (AnswerOptions, {"csv_safe": True}, "--csv-safe requires --format csv"),
        (
            AnswerOptions,
            {"resume": True},
            "--resume continues from the answers in a file, so it requires --output FILE",
        ),
        (
            AnswerOptions,
            {"resume": True, "output": OUT, "verify": True},
            "--resume and --verify cannot be used together",
        ),
        (AnswerOptions, {"cores": 2, "trace": Path("t")}, "--trace shows one core; omit --cores and --cluster"),
        (AnswerOptions, {"cluster": "auto", "trace": Path("t")}, "--trace shows one core"),
        (AnswerOptions, {"form": "parquet"}, "--format parquet is binary, so it requires --output FILE"),
        (AnswerOptions, {"form": "parquet", "output": Path("/dev/null")}, "--format parquet is binary"),
        (
            AnswerOptions,
            {"compare_backends": True, "lnc": 2},
            "--compare-backends runs layer by layer, on one NeuronCore",
        ),
        (
            AnswerOptions,
            {"compare_backends": True, "backend": "sim"},
            "--compare-backends requires the chip",
        ),
        (
            AnswerOptions,
            {"compare_backends": True, "form": "parquet", "output": OUT},
            "--compare-backends does not support --format",
        ),
        (AnswerOptions, {"compare_backends": True, "cores": 2}, "--compare-backends runs on one core"),
        (
            AnswerOptions,
            {"compare_backends": True, "dtype": "float8_e4m3"},
            "--compare-backends runs layer by layer",
        ),
        (
            AnswerOptions,
            {"compare_backends": True, "resume": True, "output": OUT},
            "--compare-backends and --resume cannot be used",
        ),
        (
            PictureOptions,
            {"ship": True, "cores": 2},
            "--ship sends pictures to the workers of a cluster, so it requires --cluster",
        ),
        (PictureOptions, {"ship": True, "cluster": "auto", "verify": True}, "--verify always sends the pictures"),
        (PictureOptions, {"resume_check": "hash"}, "--resume-check hash stores hashes next to the answers"),
        (PictureOptions, {"resume": True}, "--resume continues from"),
        (RowOptions, {"resume": True}, "--resume continues from"),
    ],
)
def test_mutually_exclusive_options_are_refused(kind: type[RunOptions], options: dict, message: str) -> None:
    with pytest.raises(UsageError, match=f"^{message}"):
        kind(**options).check()


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (RunOptions, {}),
        (RunOptions, {"dtype": "float8_e4m3", "calibrate": Path("."), "eight_bits": "all"}),
        (RunOptions, {"csv_safe": True, "form": "csv", "lnc": 2, "output": OUT, "trace": Path("t"), "verify": True}),
        (AnswerOptions, {"resume": True, "output": OUT, "cores": 2}),
        (AnswerOptions, {"cores": 1, "trace": Path("t"), "verify": True}),
        (AnswerOptions, {"compare_backends": True, "verify": True, "form": "csv", "backend": "neuron"}),
        (PictureOptions, {"ship": True, "cluster": "auto", "resume_check": "hash", "output": OUT}),
        (RowOptions, {"output": OUT, "resume": True}),
    ],
)
def test_compatible_options_are_accepted(kind: type[RunOptions], options: dict) -> None:
    kind(**options).check()


def test_parquet_requires_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    options = AnswerOptions(form="parquet", output=OUT)
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(UsageError, match="pyarrow, which is not installed"):
        options.check()


@pytest.mark.parametrize("option", ["output", "trace", "report_file"])
def test_a_file_that_is_read_is_kept(tmp_path: Path, option: str) -> None:
    (tmp_path / "x.png").touch()
    options = AnswerOptions(**{option: tmp_path / "x.png"})  # type: ignore[arg-type]
    options.check_kept(None, "-", tmp_path / "other.png")
    with pytest.raises(UsageError, match=r"x\.png: this file is read as input; use another name$"):
        options.check_kept(None, str(tmp_path / "x.png"))


def test_resumed_file_is_read_and_written(tmp_path: Path) -> None:
    (tmp_path / "x.csv").touch()
    options = {"output": tmp_path / "x.csv", "resume": True}
    AnswerOptions(**options).check_kept(tmp_path / "x.csv")
    with pytest.raises(UsageError, match=r"^--trace .*: this file is read as input"):
        AnswerOptions(**options, trace=tmp_path / "x.csv").check_kept(tmp_path / "x.csv")


def test_backend_and_batch_size() -> None:
    shared = {(): False, (("cores", 1),): False, (("cores", 2),): True, (("cluster", "auto"),): True}
    assert {given: AnswerOptions(**dict(given)).is_shared for given in shared} == shared
    assert (RunOptions().batch_size, PictureOptions().batch_size, RowOptions().batch_size) == (1, 16, 2048)
    assert output_path("-") is None and output_path("./-") == Path("-")
    check_eight_bits("float8_e4m3", Path("."), "all")
    check_eight_bits("float32", None, "inner")

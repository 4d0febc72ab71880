"""Runs that are cut off, gone on with, written to one file by two, or read by nobody."""

import csv
import io
import json
import os
import resource
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from trninfer.app.errors import UsageError
from trninfer.app.journal.answer_log import open_log
from trninfer.app.options import PictureOptions
from trninfer.app.picture_inputs import PictureInputs
from trninfer.inference.predictions import Prediction, make_predictions
from trninfer.inference.stream import answer_batches
from trninfer.models import Dense, FeatureInput, ImageInput, Network, Softmax, load_model, save_model
from trninfer.runtime.choose import choose_backend
from trninfer.runtime.session import Session, split_batches

LABELS = ("a", "b", "c")
IDENTITY = {"command": "classify", "model": "m", "top_k": 2}


def answer(name: str | int, label: int = 1) -> Prediction:
    network = Network("m", FeatureInput(1), (Dense("d", 1, 3),), LABELS)
    return make_predictions([name], network, np.array([label]), np.array([[0.25, 0.5, 0.25]], np.float32), 2)[0]


@pytest.fixture
def many(pictures: Path) -> Path:
    """A folder of forty pictures."""
    for number in range(3, 40):
        shutil.copy(pictures / f"{number % 3}.png", pictures / f"{number:02}.png")
    return pictures


class Taker:
    """Takes answers, and wants no more after `limit` of them."""

    def __init__(self, limit: int = 1000) -> None:
        self.taken: list[Prediction] = []
        self.limit = limit

    def add(self, predictions) -> bool:
        self.taken += predictions
        return len(self.taken) < self.limit


# Logs


def test_a_log_gives_back_what_it_took(tmp_path) -> None:
    given = [answer("one"), answer("two\udcff\n"), answer(3)]
    log = open_log(tmp_path / "x.csv", IDENTITY, LABELS, False)
    log.append(given[:2])
    assert list(log) == given[:2]
    log.append(given[2:])
    assert list(log) == given and log.count == 3
    log.close(keep=True)
    again = open_log(tmp_path / "x.csv", IDENTITY, LABELS, True)
    assert list(again) == given and again.answered == {"one", "two\udcff\n", 3} and again.earlier == 3
    again.append([answer("four")])
    assert list(again) == [*given, answer("four")]
    again.close()
    assert list(tmp_path.iterdir()) == []


def test_a_line_that_was_cut_off_is_given_again(tmp_path) -> None:
    log = open_log(tmp_path / "x", IDENTITY, LABELS, False)
    log.append([answer("one"), answer("two")])
    log.close(keep=True)
    whole = (tmp_path / "x.partial").read_bytes()
    for cut in range(40, len(whole)):
        (tmp_path / "x.partial").write_bytes(whole[:cut])
        log = open_log(tmp_path / "x", IDENTITY, LABELS, True)
        assert log.answered <= {"one", "two"} and log.count == max(0, whole[:cut].count(b"\n") - 1)
        log.append([answer("three")])
        assert [a.input for a in log][-1] == "three" and len(list(log)) == log.count
        log.close(keep=True)


def test_answers_of_an_interrupted_run_are_never_replaced_unasked(tmp_path) -> None:
    log = open_log(tmp_path / "x", IDENTITY, LABELS, False)
    log.close(keep=True)
    log = open_log(tmp_path / "x", IDENTITY, LABELS, False)  # none were there
    log.append([answer("one")])
    log.close(keep=True)
    before = (tmp_path / "x.partial").read_bytes()
    with pytest.raises(UsageError, match="add --resume to go on from them, or remove the file to begin anew"):
        open_log(tmp_path / "x", IDENTITY, LABELS, False)
    assert (tmp_path / "x.partial").read_bytes() == before


@pytest.mark.parametrize("change", [{"class_index": 99}, {"label": "x"}, {"probability": float("nan")}, {"top": 3}])
def test_answers_to_go_on_from_are_checked(tmp_path, change) -> None:
    log = open_log(tmp_path / "x", IDENTITY, LABELS, False)
    log.append([answer("one"), answer("two")])
    log.close(keep=True)
    first, second, third = (tmp_path / "x.partial").read_text().splitlines()
    changed = json.dumps({**json.loads(second), **change})
    (tmp_path / "x.partial").write_text(f"{first}\n{changed}\n{third}\n")
    with pytest.raises(UsageError, match="line 2 is no answer of this model"):
        open_log(tmp_path / "x", IDENTITY, LABELS, True)


def test_other_options_are_told(tmp_path) -> None:
    open_log(tmp_path / "x", {**IDENTITY, "dtype": "float32"}, LABELS, False).close(keep=True)
    with pytest.raises(UsageError, match=r"x\.partial were given with dtype float32, not bfloat16"):
        open_log(tmp_path / "x", {**IDENTITY, "dtype": "bfloat16"}, LABELS, True)
    assert (tmp_path / "x.partial").exists()


def test_two_runs_do_not_write_one_file(tmp_path) -> None:
    log = open_log(tmp_path / "x", IDENTITY, LABELS, False)
    for resume in (False, True):
        with pytest.raises(UsageError, match="another run is writing to it"):
            open_log(tmp_path / "x", IDENTITY, LABELS, resume)
    log.append([answer("one")])
    assert list(log) == [answer("one")]
    log.close()
    open_log(tmp_path / "x", IDENTITY, LABELS, False).close()


@pytest.mark.parametrize("content", [b"mine\n", b"", None])
def test_what_is_in_the_way_is_left_alone(tmp_path, content) -> None:
    partial = tmp_path / "x.partial"
    if content is None:
        os.mkfifo(partial)
    elif content:
        partial.write_bytes(content)
    else:
        partial.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match=r"x\.partial"):
        open_log(tmp_path / "x", IDENTITY, LABELS, False)
    assert not (tmp_path / "elsewhere").exists() and (content != b"mine\n" or partial.read_bytes() == content)


def test_a_full_disk_keeps_the_answers_before(tmp_path, monkeypatch) -> None:
    log = open_log(tmp_path / "x", IDENTITY, LABELS, False)
    log.append([answer("one")])
    before = (tmp_path / "x.partial").read_bytes()
    file = log._file

    class Full:
        """A file that takes ten bytes more and no others."""

        def __getattr__(self, name: str) -> object:
            return getattr(file, name)

        def write(self, content: bytes) -> int:
            if len(content) < 20:
                raise OSError(28, "No space left on device")
            return file.write(content[:10])

    monkeypatch.setattr(log, "_file", Full())
    with pytest.raises(OSError, match="No space left"):
        log.append([answer("two")])
    assert (tmp_path / "x.partial").read_bytes() == before and list(log) == [answer("one")]
    log.close()


@pytest.mark.parametrize(("features", "batch"), [(6, 6), (6, 4), (8, 8), (6, 1)])
def test_batches_one_by_one_add_up_as_all_together(tmp_path, features, batch) -> None:
    layers = (Dense("hidden", features, 8, "relu"), Dense("output", 8, 3), Softmax("softmax"))
    network = Network("n", FeatureInput(features), layers, ("a", "b", "c"))
    random = np.random.default_rng(1)
    shapes = network.tensor_shapes()
    save_model(tmp_path / "m.safetensors", network, {n: random.standard_normal(s) for n, s in shapes.items()})
    model = load_model(tmp_path / "m.safetensors")
    rows = random.standard_normal((17, features)).astype(np.float32)
    session = Session(model, choose_backend("sim"), "float32", batch)
    together = session.run(rows)
    for _ in range(2):  # a session runs again
        batches = [(range(len(part)), part) for part in split_batches(rows, batch)]
        seen: list[float] = []
        taker = Taker()
        result = answer_batches(session, batches, taker, 2, seen.append, "float32")
        assert result.count == 17 and seen == sorted(seen) and seen[-1] == 17
        assert [p.class_index for p in taker.taken] == together.classes.tolist()
        assert result.verification is not None and result.verification.passed
        for row, expected in zip(result.layers, together.layers, strict=True):
            assert row.input_shape == expected.input_shape and row.output_shape == expected.output_shape
            assert (row.flops, row.hbm_bytes, row.bound_by) == (expected.flops, expected.hbm_bytes, expected.bound_by)
            assert row.latency_us == pytest.approx(expected.latency_us) and row.mfu == pytest.approx(expected.mfu)
            assert row.share == pytest.approx(expected.share)


def test_nothing_more_is_run_when_nobody_wants_it(feature_model) -> None:
    session = Session(load_model(feature_model), choose_backend("sim"), "float32", 2)
    taker = Taker(limit=3)
    rows = np.zeros((20, 6), np.float32)
    batches = ((range(2), part) for part in split_batches(rows, 2))
    assert answer_batches(session, batches, taker, 1, lambda done: None).count == len(taker.taken) == 4


# Commands


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_top_k(cli, pictures, picture_model) -> None:
    arguments = ("classify", pictures, "--model", picture_model, "--quiet")
    for form in ("json", "ndjson"):
        out = cli(*arguments, "--top-k", 3, "--format", form).out
        answers = json.loads(out)["predictions"] if form == "json" else [json.loads(x) for x in out.splitlines()[:3]]
        assert [len(a["top"]) for a in answers] == [3, 3, 3]
        assert all(a["top"][0]["label"] == a["label"] for a in answers)
    table = cli(*arguments, "--top-k", 2).out.splitlines()
    assert len(table) == len(cli(*arguments).out.splitlines()) + 3
    wrong = cli(*arguments, "--top-k", 11)
    assert wrong.status == 2 and wrong.err == "trninfer: --top-k 11: this model has 10 labels\n"
    assert cli(*arguments, "--top-k", 0).status == 2


def test_resume_answers_what_is_missing(cli, many, picture_model, tmp_path) -> None:
    target = tmp_path / "a.csv"
    arguments = ("classify", many, "--model", picture_model, "--format", "csv")
    whole = cli(*arguments, "--quiet").out
    options = (*arguments, "--output", target, "--resume")
    for done in ("".join(whole.splitlines(True)[:11]), whole[:-9]):
        target.write_text(done)  # as a full disk may leave it
        outcome = cli(*options)
        assert outcome.status == 0 and f"going on from {done.count(chr(10)) - 1} answers in" in outcome.err
        assert [(r["input"], r["label"]) for r in rows_of(target.read_text())] == [
            (r["input"], r["label"]) for r in rows_of(whole)
        ]
        assert target.read_text().startswith(done[: done.rindex("\n")])
    before = target.read_text()
    assert cli(*options).status == 0 and target.read_text() == before  # nothing is missing
    assert sorted(p.name for p in tmp_path.iterdir() if p.is_file()) == ["a.csv"]


def test_resume_tries_errors_again_and_takes_new_pictures(cli, pictures, picture_model, tmp_path) -> None:
    target = tmp_path / "a.ndjson"
    good = (pictures / "1.png").read_bytes()
    (pictures / "1.png").write_bytes(b"not yet")
    options = ("classify", pictures, "--model", picture_model, "--format", "ndjson", "--output", target, "--resume")
    assert cli(*options).status == 2
    (pictures / "1.png").write_bytes(good)
    shutil.copy(pictures / "2.png", pictures / "3.png")
    assert cli(*options).status == 0
    lines = [json.loads(line) for line in target.read_text().splitlines()]
    inputs = [Path(line["input"]).name for line in lines if line["type"] == "prediction"]
    assert inputs == ["0.png", "2.png", "1.png", "3.png"] and not [x for x in lines if x["type"] == "error"]
    for change, message in (
        (("--dtype", "bfloat16"), "dtype float32, not bfloat16"),
        (("--target", "trn1"), "target trn2, not trn1"),
        (("--top-k", "2"), "top-k 5"),
        (("--verify",), "exclude each other"),
    ):
        outcome = cli(*options, *change)
        assert outcome.status == 2 and message in outcome.err and len(outcome.err.splitlines()) == 1


def replace_picture(path: Path, other: Path, keep_time: bool) -> None:
    """Put another picture in the place of one, perhaps with its size and its time, as copies of folders may."""
    status, content = path.stat(), other.read_bytes()
    path.write_bytes(content + bytes(max(0, status.st_size - len(content))))
    if keep_time:
        os.truncate(path, status.st_size)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    else:
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 10**12))


def leave_partial(cli, target: Path, *arguments: object) -> None:
    """An interrupted run: a full disk lets no report be written."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trninfer.app.journal.answers.write_chunks", full_disk)
        assert cli(*arguments).status == 2
    assert Path(f"{target}.partial").exists() and not target.exists()


def full_disk(*_: object) -> None:
    raise UsageError("no space left")


@pytest.mark.parametrize("finished", [False, True])
@pytest.mark.parametrize("check", ["name", "stat", "hash"])
@pytest.mark.parametrize("keep_time", [False, True])
def test_resume_answers_pictures_again_that_changed(
    cli, pictures, picture_model, tmp_path, check, finished, keep_time
) -> None:
    target = tmp_path / "a.csv"
    options = ("classify", pictures, "--model", picture_model, "--format", "csv", "--output", target)
    with (pictures / "1.png").open("ab") as file:
        file.write(bytes(4096))  # room for another picture in a file of the same size
    if finished:
        assert cli(*options, "--resume-check", check).status == 0
    else:
        leave_partial(cli, target, *options, "--resume-check", check)
    image = Image.open(pictures / "2.png").transpose(Image.Transpose.ROTATE_180)
    image.save(tmp_path / "other.png")
    replace_picture(pictures / "1.png", tmp_path / "other.png", keep_time)
    outcome = cli(*options, "--resume", "--resume-check", check)
    if finished and check == "hash":
        assert outcome.status == 2 and "comes without a hash" in outcome.err and len(outcome.err.splitlines()) == 1
        return
    assert outcome.status == 0
    names = [Path(row["input"]).name for row in rows_of(target.read_text())]
    seen = check == "hash" or (check == "stat" and not keep_time)
    assert names == (["0.png", "2.png", "1.png"] if seen else ["0.png", "1.png", "2.png"])
    assert ("1 input changed since an earlier run" in outcome.err) == seen
    if seen:
        now = rows_of(cli("classify", pictures / "1.png", "--model", picture_model, "--format", "csv", "--quiet").out)
        assert rows_of(target.read_text())[-1] == now[0]


def test_an_answer_that_does_not_count_is_never_counted_again(cli, pictures, picture_model, tmp_path) -> None:
    target = tmp_path / "a.csv"
    options = ("classify", pictures, "--model", picture_model, "--format", "csv", "--output", target, "--resume")
    for _ in range(3):
        leave_partial(cli, target, *options)
        replace_picture(pictures / "1.png", pictures / "0.png", keep_time=False)
    assert cli(*options).status == 0
    answers = {Path(row["input"]).name: float(row["probability"]) for row in rows_of(target.read_text())}
    assert len(rows_of(target.read_text())) == 3 and answers["0.png"] == pytest.approx(answers["1.png"], rel=1e-5)


def test_examples_of_an_array_are_known_by_their_file(cli, picture_model, tmp_path) -> None:
    path, target = tmp_path / "x.npy", tmp_path / "a.csv"
    np.save(path, np.zeros((3, 1, 16, 16), np.float32))
    options = ("classify", path, "--model", picture_model, "--format", "csv", "--output", target, "--resume")
    leave_partial(cli, target, *options)
    np.save(path, np.random.default_rng(0).standard_normal((3, 1, 16, 16)).astype(np.float32))
    os.utime(path, ns=(0, 10**18))
    assert "3 inputs changed" in cli(*options).err
    assert len({row["probability"] for row in rows_of(target.read_text())}) == 3


def test_hashes_need_a_file_and_an_earlier_run_that_made_them(cli, pictures, picture_model, tmp_path) -> None:
    options = ("classify", pictures, "--model", picture_model, "--format", "csv")
    assert "needs --output FILE" in cli(*options, "--resume-check", "hash").err
    leave_partial(cli, tmp_path / "a.csv", *options, "--output", tmp_path / "a.csv")
    outcome = cli(*options, "--output", tmp_path / "a.csv", "--resume", "--resume-check", "hash")
    assert outcome.status == 2 and "use --resume-check stat" in outcome.err
    assert Path(f"{tmp_path / 'a.csv'}.partial").exists()


@pytest.mark.parametrize(
    ("form", "content", "message"),
    [
        ("csv", "a,b\n1,2\n", "not a csv report"),
        ("csv", "input,label,class_index,probability,error\nx.png,9,1,0.5,\n", "line 2 is no answer of this model"),
        ("csv", "input,label,class_index,probability,error\nx.png,1,1,nan,\n", "line 2 is no answer of this model"),
        ("csv", "input,label,class_index,probability,error\nx.png,1\n", "line 2 is no answer of this model"),
        ("ndjson", "[]\n", "line 1 is no answer of this model"),
        ("ndjson", "{\n", "line 1 is no answer of this model"),
        ("ndjson", "[" * 100_000 + "\n", "line 1 is no answer of this model"),
        ("json", "{}", "only csv and ndjson"),
    ],
)
def test_resume_from_what_is_no_report(cli, pictures, picture_model, tmp_path, form, content, message) -> None:
    target = tmp_path / f"a.{form}"
    target.write_text(content)
    outcome = cli(
        "classify", pictures, "--model", picture_model, "--format", form, "--output", target, "--resume", "--quiet"
    )
    assert outcome.status == 2 and message in outcome.err and len(outcome.err.splitlines()) == 1
    assert target.read_text() == content and not Path(f"{target}.partial").exists()


def test_resume_of_rows(cli, feature_model, tmp_path) -> None:
    rows = np.random.default_rng(2).standard_normal((30, 6)).astype("<f4")
    rows.tofile(tmp_path / "X.bin")
    np.zeros(30, "<i4").tofile(tmp_path / "Y.bin")
    target = tmp_path / "a.ndjson"
    options = ("ffnn", "--data", tmp_path / "X.bin", "--model", feature_model, "--labels", tmp_path / "Y.bin",
               "--format", "ndjson", "--output", target, "--resume")  # fmt: skip
    assert cli(*options).status == 0
    whole = target.read_text().splitlines(True)
    target.write_text("".join(whole[:13]))
    assert cli(*options).status == 0
    again = target.read_text().splitlines(True)
    assert again[:30] == whole[:30] and json.loads(again[-1])["score"] == json.loads(whole[-1])["score"]
    target.write_text("".join(whole[3:7]))
    assert cli(*options).status == 0
    assert sorted(target.read_text().splitlines(True)[:30]) == sorted(whole[:30])
    target.write_text(whole[3].replace('"input": 3', '"input": 30'))
    assert "are not of these 30 rows" in cli(*options).err


def test_interruption_and_resume(process, many, picture_model, tmp_path) -> None:
    target, partial = tmp_path / "a.json", tmp_path / "a.json.partial"
    target.write_text("before")
    arguments = ("classify", many, "--model", picture_model, "--format", "json", "--output", target, "--batch-size", 1)
    running = process(*arguments)
    wait_for_answers(running, partial, 3)
    running.send_signal(signal.SIGSTOP)
    second = process(*arguments)
    assert second.communicate()[1] == f"trninfer: {target}: another run is writing to it\n".encode()
    assert second.returncode == 2
    running.send_signal(signal.SIGINT)
    running.send_signal(signal.SIGCONT)
    _, err = running.communicate(timeout=20)
    kept = partial.read_bytes().count(b"\n") - 1
    # One that was being written when it was interrupted is taken back.
    assert running.returncode == 130 and kept >= 2 and target.read_text() == "before"
    assert err.decode() == (
        f"trninfer: {kept} answers kept in {partial}; the same command with --resume goes on from there\n"
        "trninfer: interrupted\n"
    )
    other = process(*arguments, "--resume", "--dtype", "float16")
    assert b"were given with dtype float32, not float16" in other.communicate()[1] and other.returncode == 2
    again = process(*arguments, "--resume")
    _, err = again.communicate()
    assert again.returncode == 0 and f"going on from {kept} answers in {partial}" in err.decode()
    report = json.loads(target.read_text())
    assert [Path(a["input"]).name for a in report["predictions"]] == sorted(os.listdir(many))
    assert report["layers"][0]["input_shape"][0] == 40 - kept
    assert not partial.exists()


def test_killed_runs_are_gone_on_with_too(process, many, picture_model, tmp_path) -> None:
    target, partial = tmp_path / "a.csv", tmp_path / "a.csv.partial"
    arguments = ("classify", many, "--model", picture_model, "--format", "csv", "--output", target, "--batch-size", 1)
    running = process(*arguments)
    wait_for_answers(running, partial, 1)
    running.kill()
    running.communicate()
    again = process(*arguments, "--resume", "--quiet")
    assert again.communicate() == (b"", b"") and again.returncode == 0
    assert [Path(row["input"]).name for row in rows_of(target.read_text())] == sorted(os.listdir(many))


def test_a_full_disk_is_told_and_gone_on_from(process, many, picture_model, tmp_path) -> None:
    target, partial = tmp_path / "a.csv", tmp_path / "a.csv.partial"
    arguments = ("classify", many, "--model", picture_model, "--format", "csv", "--output", target, "--quiet")
    small = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))}
    running = process(*arguments, "--batch-size", 3, **small)
    _, err = running.communicate()
    assert running.returncode == 2 and b"cannot be written: File too large" in err and b"answers kept in" in err
    kept = partial.read_bytes()
    assert kept.endswith(b"\n") and kept.count(b"\n") > 3 and not target.exists()
    again = process(*arguments, "--resume")
    assert again.communicate()[1] == b"" and again.returncode == 0
    assert len(rows_of(target.read_text())) == 40 and not partial.exists()


def test_a_reader_that_goes_away_ends_the_run(process, many, picture_model) -> None:
    running = process("classify", many, "--model", picture_model, "--format", "csv", "--batch-size", 1)
    assert running.stdout is not None and running.stderr is not None
    assert running.stdout.readline() == b"input,label,class_index,probability,error\n"
    assert running.stdout.readline().startswith(str(many).encode())  # before the others are answered
    running.stdout.close()
    err = running.stderr.read().decode()
    assert running.wait() == 0 and "Traceback" not in err and "40 pictures" not in err


def test_resume_needs_a_file(cli, pictures, picture_model) -> None:
    for output in ((), ("--output", "/dev/null")):
        outcome = cli("classify", pictures, "--model", picture_model, "--resume", *output)
        assert outcome.status == 2 and "it needs --output FILE" in outcome.err


def wait_for_answers(running, partial: Path, count: int) -> None:
    """Until a run has answered so many."""
    end = time.monotonic() + 30
    while not partial.exists() or partial.read_bytes().count(b"\n") <= count:
        assert running.poll() is None and time.monotonic() < end
        time.sleep(0.005)


def test_names_that_print_alike_are_two_inputs(cli, pictures, picture_model, tmp_path) -> None:
    as_byte, as_text = os.fsdecode(bytes(pictures / "0.png")[:-5] + b"\xff.png"), str(pictures / "\\xff.png")
    for name in (as_byte, as_text):
        os.rename(pictures / f"{0 if name == as_byte else 1}.png", name)
    command = ["classify", "--model", picture_model, "--quiet", "--output", tmp_path / "a.csv", "--format", "csv"]
    log = tmp_path / "a.csv.partial"
    assert cli(*command, as_byte, pictures / "none.png").status == 2  # a report with one of them
    assert cli(*command, "--resume", as_byte).status == 0
    outcome = cli(*command, "--resume", as_byte, as_text)
    assert outcome.status == 2 and "does not tell which of them it answers" in outcome.err and not log.exists()
    (tmp_path / "a.csv").unlink()
    assert cli(*command, as_text, as_byte).status == 0
    lines = (tmp_path / "a.csv").read_text().splitlines()
    assert len(lines) == 3 and lines[1].split(",")[0] == lines[2].split(",")[0]


def test_answers_in_a_journal_know_names_apart_that_print_alike(tmp_path) -> None:
    inputs = PictureInputs(
        ["\udcff.png", "\\xff.png"], [], ImageInput(1, 8, 8, "digit", (0.0,), (1.0,)), PictureOptions()
    )
    assert inputs.leave_out({"\\xff.png"}, set()) == 1 and list(inputs._names) == ["\udcff.png"]


@pytest.mark.parametrize("name", ["a\rb.png", "a\r\nb.png", "a\nb.png", 'a",\rb.png'])
def test_any_name_is_one_field_of_the_csv(cli, pictures, picture_model, tmp_path, name) -> None:
    path = str(pictures / name)
    os.rename(pictures / "0.png", path)
    command = ["classify", "--model", picture_model, "--quiet", "--output", tmp_path / "a.csv", "--format", "csv", path]
    assert cli(*command).status == 0
    before = (tmp_path / "a.csv").read_bytes()
    with (tmp_path / "a.csv").open(newline="") as file:
        assert [row[0] for row in csv.reader(file)] == ["input", path]
    assert cli(*command, "--resume").status == 0 and (tmp_path / "a.csv").read_bytes() == before


def test_layers_after_a_resume_tell_what_they_leave_out(cli, pictures, picture_model, tmp_path) -> None:
    command = ["classify", "--model", picture_model, "--output", tmp_path / "a.ndjson", "--format", "ndjson"]
    assert cli(*command, pictures / "0.png").status == 0
    outcome = cli(*command, "--resume", pictures)
    assert "2 pictures in batches of at most 16; the 1 answer of an earlier run took no time here" in " ".join(
        outcome.err.split()
    )
    lines = [json.loads(line) for line in (tmp_path / "a.ndjson").read_text().splitlines()]
    assert lines[-1]["type"] == "summary" and lines[-1]["answered_earlier"] == 1

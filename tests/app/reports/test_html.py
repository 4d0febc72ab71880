"""A report as an HTML file, and the page of the kernels that a script launched."""

from report_pages import Page, layer, make_report, make_run
from trninfer import kernels, simulator
from trninfer.app.reports.html import page_of_launches, write_report


def test_the_file_is_written_whole_or_not_at_all(cli, feature_model, tmp_path) -> None:
    for wrong in (tmp_path, tmp_path / "no" / "folder.html"):
        outcome = cli("bench", "--model", feature_model, "--report", wrong)
        assert outcome.status == 2 and outcome.err.startswith("trninfer: --report") and outcome.out == ""
    outcome = cli("bench", "--model", feature_model, "--report", "/dev/full")
    assert outcome.status == 2 and outcome.err.startswith("trninfer: --report /dev/full: cannot be written: No space")
    page = tmp_path / "page.html"
    page.write_text("before")
    (tmp_path / "link.html").symlink_to(page)
    assert cli("bench", "--model", feature_model, "--report", tmp_path / "link.html").status == 0
    assert (tmp_path / "link.html").is_symlink() and page.read_text().startswith("<!DOCTYPE html>")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.html", "page.html"]


def test_no_path_no_page(tmp_path) -> None:
    write_report(None, make_report(layer()))
    write_report(tmp_path / "x.html", make_report(layer()), [("conv", make_run())])
    page = Page((tmp_path / "x.html").read_text(encoding="utf-8"))
    assert "net: a batch of 1" in page.text and [launch[0] for launch in page.data()["launches"]] == ["conv"]


def test_repeated_launches_are_numbered() -> None:
    run = simulator.run(kernels.kernel("transpose"), simulator.TensorSpec((3, 5), "float32"), functional=False)
    other = simulator.run(kernels.kernel("argmax"), simulator.TensorSpec((3, 8), "float32"), functional=False)
    page = Page(page_of_launches("script.py", [run, other, run], 1.5))
    assert [launch[0] for launch in page.data()["launches"]] == ["transpose", "argmax", "transpose #2"]
    total = 2 * run.latency_us + other.latency_us
    assert page.data()["total"] / 1000 == round(total, 6) and f"{total:.2f} us" in page.text
    assert f"{100 * other.latency_us / total:.1f} %" in page.text and "trninfer simulate" in page.text
    assert "1.50 s on" in page.text and "Use of SBUF and PSUM" in page.text and "Line by line" in page.text


def test_targets_of_launches_and_a_script_without_any() -> None:
    spec = simulator.TensorSpec((1, 1), "float32")
    transpose = kernels.kernel("transpose")
    runs = [simulator.run(transpose, spec, target=target, functional=False) for target in ("trn3", "trn1", "trn3")]
    source = page_of_launches("s.py", runs[:1], 0.0)
    assert "trn3" in Page(source).text and "scaled from trn2" in Page(source).text
    assert not Page(page_of_launches("s.py", [], 0.0)).all("canvas")

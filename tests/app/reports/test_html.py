"""A report as a file of HTML."""


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

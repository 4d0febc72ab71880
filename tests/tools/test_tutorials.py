"""Tutorials: their commands print what the pages show, and their files are copied to the site."""

from __future__ import annotations

from pathlib import Path

import pytest
from processes import wait_for_ends
from trninfer.tools import tutorials
from trninfer.tools.site_hook import show_files

BY_HAND = {
    "tutorial-yolo",
    "tutorial-cs149",
    "tutorial-study",
}  # tools.update_docs writes these pages, which take the longest


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.by_hand if name in BY_HAND else pytest.mark.slow)
        for name in tutorials.PAGES
    ],
)
def test_commands_print_what_the_page_shows(name: str) -> None:
    if name == "tutorial-yolo":
        pytest.importorskip("ultralytics")
    text = tutorials.PAGES[name].read_text(encoding="utf-8")
    assert text.count("<!-- run: ") + text.count("<!-- once: ") == text.count("<!-- end -->") >= 3
    assert tutorials.fill_tutorial(text) == text, f"run python -m trninfer.tools.update_docs {name}"


PAGE = """a
<!-- file: x.py -->
```python
import sys
print(len(sys.argv), open("samples/README.md").readline()[0])
```
<!-- run: python x.py > out.txt; cat out.txt; echo "backend sim: 1.2 s on this machine"; pwd -->
old
<!-- end -->
<!-- run: true -->
<!-- end -->
<!-- site: out.txt: What it wrote -->
"""


def test_commands_run_in_one_folder_with_the_files_of_the_page(tmp_path: Path) -> None:
    filled = tutorials.fill_tutorial(PAGE)
    assert "on this machine -->\n" not in filled
    assert "; pwd -->\n```console\n$ python x.py > out.txt" in filled and "\n1 #\n" in filled and "old" not in filled
    assert "<!-- run: true -->\n```console\n$ true\n```\n<!-- end -->" in filled
    assert tutorials.copy_files(PAGE, tmp_path) == ["out.txt"]
    assert (tmp_path / "out.txt").read_text() == "1 #\n"


def test_output_that_depends_on_the_machine_is_omitted() -> None:
    page = "<!-- run: {} -->\n<!-- end -->".format(
        "echo one; echo; echo 'backend sim: 1.2 s on this machine'; echo 'auto chose the simulator: x'; echo $PWD/two"
    )
    assert "\none\ntwo\n```" in tutorials.fill_tutorial(page)
    assert tutorials.fill_tutorial(tutorials.fill_tutorial(page)) == tutorials.fill_tutorial(page)


def test_figures_that_differ_each_time_are_kept() -> None:
    page = "<!-- once: {} -->\n{}<!-- end -->"
    assert tutorials.fill_tutorial(page.format("echo ---; echo p99 12.5 ms", "")).count("12.5") == 3
    command = "echo p99 12.5 ms"
    kept = page.format(command, f"```console\n$ {command}\np99 9.75 ms\n```\n")
    assert tutorials.fill_tutorial(kept) == kept
    other = tutorials.fill_tutorial(page.format(command, f"```console\n$ {command}\np99 9.75 us\n```\n"))
    assert "p99 12.5 ms\n```" in other and "9.75" not in other


def test_a_server_is_ended_with_its_page(tmp_path: Path) -> None:
    page = "<!-- run: sleep 60 > /dev/null 2>&1 & echo $! > a.pid; cat a.pid -->\n<!-- end -->"
    number = int(tutorials.fill_tutorial(page).splitlines()[-3])
    wait_for_ends([number])


def test_a_command_that_fails_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="exit status 3: no"):
        tutorials.fill_tutorial("<!-- run: echo no; exit 3 -->\n<!-- end -->")


def test_the_site_links_to_files_and_shows_pictures() -> None:
    text = "<!-- site: r.html: The report -->\n<!-- site: g.svg: A graph: coloured -->"
    assert show_files(text, "page") == "[The report](page/r.html)\n\n![A graph: coloured](page/g.svg)\n"


def test_files_are_added_to_the_site(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", minversion="1.6")
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(PAGE)
    (tmp_path / "mkdocs.yml").write_text(
        f"site_name: x\nuse_directory_urls: false\nhooks: [{tutorials.ROOT / 'tools' / 'site_hook.py'}]\n"
    )
    build(load_config(str(tmp_path / "mkdocs.yml"), site_dir=str(tmp_path / "site"), strict=True))
    assert (tmp_path / "site" / "index" / "out.txt").read_text() == "1 #\n"
    assert 'href="index/out.txt"' in (tmp_path / "site" / "index.html").read_text()

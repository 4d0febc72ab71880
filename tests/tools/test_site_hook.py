"""Pages of docs/ on the site: no link leads outside of it, and Markdown in collapsed sections is rendered."""

import re

import pytest
from trninfer.tools.site_hook import adapt
from trninfer.tools.update_docs import ROOT


def test_links_out_of_docs_become_text_or_lead_to_the_repository() -> None:
    page = "[a](../kernels) [b](../README.md#where) [c](chip.md) [d](https://x.org/../e) [f\\_g](../f.py)"
    assert adapt(page, "docs", "") == "a b [c](chip.md) [d](https://x.org/../e) f\\_g"
    shown = adapt(page, "docs", "https://example.org/trninfer/")
    assert "[a](https://example.org/trninfer/blob/main/kernels)" in shown
    assert "[b](https://example.org/trninfer/blob/main/README.md#where)" in shown
    assert adapt("[a](../chip.md)", "docs/more", "") == "[a](../chip.md)"


def test_code_is_left_as_it_is() -> None:
    code = "```\n[a](../kernels) <details>\n```"
    assert adapt(f"<details>\n{code}\n[a](../b)", "docs", "") == f'<details markdown="1">\n{code}\na'


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.name)
def test_no_page_leads_out_of_the_site(page) -> None:
    text = re.sub(r"^```.*?^```$", "", adapt(page.read_text(encoding="utf-8"), "docs", ""), flags=re.M | re.S)
    assert "](../" not in text


def test_the_site_shows_every_page() -> None:
    listed = set(re.findall(r"([\w-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.M))
    assert listed == {page.name for page in (ROOT / "docs").glob("*.md")}

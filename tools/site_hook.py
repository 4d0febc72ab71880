"""What mkdocs.yml changes in pages written for a repository: links that leave docs/, and Markdown within `<details>`.

MkDocs loads this file by its path, so it imports nothing of ours.
"""

from __future__ import annotations

import posixpath
import re
from typing import Any

_FENCE = re.compile(r"(^```.*?^```$)", re.M | re.S)
_LINK = re.compile(r"\[((?:[^\[\]\\]|\\.)+)\]\((\.\./[^)\s#]*)(#[^)\s]*)?\)")


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Return the page with links into the repository at `repo_url`, or as text where there is none."""
    folder = posixpath.dirname(posixpath.join("docs", page.file.src_uri))
    return adapt(markdown, folder, config.get("repo_url") or "")


def adapt(markdown: str, folder: str, repository: str) -> str:
    """Return Markdown of a page in `folder` for the site. `repository`: its address, "" if it has none."""

    def replace(match: re.Match[str]) -> str:
        text, path, anchor = match[1], posixpath.normpath(posixpath.join(folder, match[2])), match[3] or ""
        if path.startswith("docs/"):
            return match[0]
        return f"[{text}]({repository.rstrip('/')}/blob/main/{path}{anchor})" if repository else text

    parts = _FENCE.split(markdown)  # code is left as it is: every second part
    parts[::2] = [_LINK.sub(replace, part).replace("<details>", '<details markdown="1">') for part in parts[::2]]
    return "".join(parts)

"""MkDocs hook that adapts pages written for a repository: links that leave docs/, Markdown within `<details>`, and the
pages and pictures written by the commands of tutorials (see tutorials.py), which are not in the repository.

MkDocs loads this file by its path, so it does not import other modules of trninfer; tutorials run in a separate
process.
"""

from __future__ import annotations

import posixpath
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

_FENCE = re.compile(r"(^```.*?^```$)", re.M | re.S)
_LINK = re.compile(r"\[((?:[^\[\]\\]|\\.)+)\]\((\.\./[^)\s#]*)(#[^)\s]*)?\)")
_SITE = re.compile(r"<!-- site: ([\w.-]+): (.+?) -->")


def on_files(files: Any, *, config: Any) -> Any:
    """Add the files that the commands of tutorials write, in one folder per page, named after the page."""
    from mkdocs.structure.files import File

    for page in [file for file in files.documentation_pages() if _SITE.search(file.content_string)]:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "trninfer.tools.tutorials", page.abs_src_path, folder]
            subprocess.run(command, check=True)
            for path in sorted(Path(folder).iterdir()):
                name = posixpath.join(posixpath.splitext(page.src_uri)[0], path.name)
                files.append(File.generated(config, name, content=path.read_bytes()))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Return the page with links into the repository at `repo_url`, or with plain text instead of links if it is not
    set."""
    folder = posixpath.dirname(posixpath.join("docs", page.file.src_uri))
    page_name = posixpath.splitext(posixpath.basename(page.file.src_uri))[0]
    return show_files(adapt(markdown, folder, config.get("repo_url") or ""), page_name)


def adapt(markdown: str, folder: str, repository: str) -> str:
    """Return the Markdown of a page in `folder`, adapted for the site.

    `repository`: the URL of the repository, or "".
    """

    def replace(match: re.Match[str]) -> str:
        text, path, anchor = match[1], posixpath.normpath(posixpath.join(folder, match[2])), match[3] or ""
        if path.startswith("docs/"):
            return match[0]
        return f"[{text}]({repository.rstrip('/')}/blob/main/{path}{anchor})" if repository else text

    parts = _FENCE.split(markdown)  # every second part is code, which is not changed
    parts[::2] = [_LINK.sub(replace, part).replace("<details>", '<details markdown="1">') for part in parts[::2]]
    return "".join(parts)


def show_files(markdown: str, folder: str) -> str:
    """Return Markdown with pictures and links in place of the comments that name files that the commands of a page
    write."""

    def replace(match: re.Match[str]) -> str:
        name, text = match.groups()
        return f"{'!' if name.endswith('.svg') else ''}[{text}]({folder}/{name})\n"

    return _SITE.sub(replace, markdown)

"""The Dockerfile, checked with the relevant rules of hadolint, since no Docker daemon runs in CI."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SHELLS = ("RUN",)


def instructions(text: str) -> list[tuple[str, str]]:
    """Return (instruction, arguments) of each instruction, with continued lines joined."""
    joined = re.sub(r"\\\n", " ", text)
    lines = [line.strip() for line in joined.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return [(line.split(maxsplit=1)[0].upper(), line.split(maxsplit=1)[1]) for line in lines]


def faults(text: str, root: Path) -> Iterator[str]:
    """Return the violated rules (https://github.com/hadolint/hadolint, rules DL...)."""
    stages: list[str] = []
    user, folder = "root", ""
    for name, arguments in instructions(text):
        words = arguments.split()
        if name == "FROM":
            image, user, folder = words[0], "root", ""
            tag = image.partition("@")[0].rpartition("/")[2].partition(":")[2]
            if image not in stages and tag in ("", "latest"):
                yield f"DL3006, DL3007: {image} has no version"
            stages += words[2:3] if len(words) > 2 else []
        elif name == "WORKDIR":
            folder = arguments
            if not arguments.startswith(("/", "$")):
                yield f"DL3000: WORKDIR {arguments} is not absolute"
        elif name == "USER":
            user = words[0].partition(":")[0]
        elif name in ("ADD", "MAINTAINER"):
            yield f"DL3020, DL4000: {name}"
        elif name == "COPY":
            paths = [word for word in words if not word.startswith("--")]
            source = next((word.partition("=")[2] for word in words if word.startswith("--from=")), None)
            if source is not None and source not in stages:
                yield f"DL3022: COPY --from={source} is no stage"
            if not folder and not paths[-1].startswith("/"):
                yield f"DL3045: COPY to {paths[-1]} without WORKDIR"
            if source is None:
                yield from (f"COPY of {path}, which is not there" for path in paths[:-1] if not (root / path).exists())
        elif name in ("CMD", "ENTRYPOINT"):
            try:
                json.loads(arguments)
            except ValueError:
                yield f"DL3025: {name} is not in JSON"
        elif name in SHELLS:
            if "pip install" in arguments and "--no-cache-dir" not in arguments:
                yield "DL3042: pip keeps its cache"
            if re.search(r"\bsudo\b", arguments) or "apt-get upgrade" in arguments:
                yield "DL3004, DL3005: sudo or upgrade"
            if "apt-get install" in arguments and not re.search(r"-y\b.*--no-install-recommends", arguments):
                yield "DL3014, DL3015: apt-get install without -y --no-install-recommends"
    if user in ("root", "0"):
        yield "DL3002: runs as root"


def test_the_dockerfile_has_no_faults() -> None:
    assert list(faults((ROOT / "Dockerfile").read_text(encoding="utf-8"), ROOT)) == []


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("FROM python\nUSER a", "DL3006"),
        ("FROM a:1\nWORKDIR data\nUSER a", "DL3000"),
        ("FROM a:1\nRUN pip install x\nUSER a", "DL3042"),
        ("FROM a:1\nCOPY --from=build /a /b\nUSER a", "DL3022"),
        ("FROM a:1\nCOPY nowhere /b\nUSER a", "not there"),
        ("FROM a:1\nUSER a\nCMD trninfer serve", "DL3025"),
        ("FROM a:1", "DL3002"),
    ],
)
def test_faults_are_found(line: str, rule: str) -> None:
    assert any(rule in fault for fault in faults(line, ROOT))


def test_probes_of_the_docs_are_addresses_of_the_server() -> None:
    """The paths in the examples of docs/serving.md exist on the server and need no token."""
    pytest.importorskip("fastapi")
    from trninfer.inference.serving.gate import OPEN_TO_ALL

    probes = set(re.findall(r"httpGet: \{path: (\S+),", (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")))
    assert probes == {"/v2/health/ready", "/v2/health/live"} and probes <= set(OPEN_TO_ALL)

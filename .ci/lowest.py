"""The lowest versions that pyproject.toml allows of what trninfer needs, as requirements for pip, one a line."""

import pathlib
import re
import sys

if __name__ == "__main__":
    text = (pathlib.Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    block = re.search(r"^dependencies = \[(.*?)^\]", text, re.M | re.S)
    if block is None:
        sys.exit("pyproject.toml: no dependencies found")
    for requirement in re.findall(r'^ *"(.*)",$', block[1], re.M):
        name, bound, marker = re.fullmatch(r"([\w-]+)>=([\d.]+)(;.*)?", requirement).groups()
        print(f"{name}=={bound}{marker or ''}")

"""Print the lowest versions of dependencies that pyproject.toml allows, as requirements for pip, one per line.

Arguments are names of extras whose dependencies are printed too. The script ends with a message if .ci/advisories.csv
lists a security advisory against a version that pyproject.toml allows.
"""

import csv
import pathlib
import re
import sys

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

ROOT = pathlib.Path(__file__).parents[1]
REQUIREMENT = r"([\w-]+)(?:\[[\w,]+\])?>=([\d.]+(?:(?:a|b|rc)\d+)?)(?:,<[\d.]+)?(;.*)?"


def read_project() -> dict:
    """Return the table `project` of pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def lowest(requirements: list[str]) -> list[tuple[str, str, str]]:
    """Return (name, lowest version, marker) of requirements. Requirements of this package itself are omitted."""
    found = []
    for requirement in requirements:
        match = re.fullmatch(REQUIREMENT, requirement.replace(" ", ""))
        if match:
            found.append((match[1], match[2], (match[3] or "").replace("python_version", "python_version ")))
        elif not requirement.startswith("trninfer["):
            sys.exit(f"pyproject.toml: {requirement!r} has no lowest version")
    return found


def vulnerable(project: dict, advisories: list[dict[str, str]]) -> list[str]:
    """Return a line for each advisory against a version that is allowed, and for each package that is not needed."""
    extras = project["optional-dependencies"]
    bounds: dict[str, list[str]] = {}
    for name, version, _ in lowest([*project["dependencies"], *(each for extra in extras.values() for each in extra)]):
        bounds.setdefault(name.lower(), []).append(version)
    lines = []
    for row in advisories:
        name, fixed = row["package"], row["fixed_in"]
        if name not in bounds:
            lines.append(f"{name}: {row['advisory']} is listed, but pyproject.toml has no lowest version of it")
        for version in bounds.get(name, ()):
            if numbers(version) < numbers(fixed):
                lines.append(f"{name}>={version}: {row['advisory']} is fixed in {fixed}")
    return lines


def numbers(version: str) -> list[int]:
    """Return the numbers of a version as a sort key. For example, 2.13.0b0 precedes 2.13."""
    release, *before = re.split("a|b|rc", version)
    parts = [int(part) for part in release.split(".")]
    return parts + [0] * (4 - len(parts)) + [-1 if before else 0]


def main(extras: list[str]) -> None:
    """Print the requirements."""
    project = read_project()
    with (ROOT / ".ci" / "advisories.csv").open(encoding="utf-8", newline="") as file:
        problems = vulnerable(project, list(csv.DictReader(file)))
    if problems:
        sys.exit("\n".join(problems))
    needed = [*project["dependencies"], *(each for extra in extras for each in project["optional-dependencies"][extra])]
    for name, version, marker in lowest(needed):
        print(f"{name}=={version}{marker}")


if __name__ == "__main__":
    main(sys.argv[1:])

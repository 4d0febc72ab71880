"""Files that anyone may have put beside pictures, and that nothing must run."""

from pathlib import Path

NAMES = ("numpy", "ray", "PIL", "json", "typing", "sitecustomize", "ml_dtypes")


def set_traps(folder: Path) -> None:
    """Modules in `folder` that leave a file when they are imported."""
    spring = "import os; open(__file__ + '.sprung', 'w').close()\n"
    for name in NAMES:
        (folder / f"{name}.py").write_text(spring, encoding="utf-8")
    (folder / "trninfer").mkdir()
    (folder / "trninfer" / "__init__.py").write_text(spring, encoding="utf-8")


def sprung(folder: Path) -> list[str]:
    """The traps that were run."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*.sprung"))

"""Property tests draw the same examples in each run, in any order of the tests, unless they are told to explore."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

CONFTEST = Path(__file__).with_name("conftest.py")


def draws(**fields: object) -> list[int]:
    """Return 100 numbers that Hypothesis draws with the profile in use."""
    found: list[int] = []

    @settings(max_examples=100, **fields)  # type: ignore[arg-type]
    @given(st.integers(10**6, 10**9))
    def draw(number: int) -> None:
        found.append(number)

    draw()
    return found


def test_draws_do_not_depend_on_imported_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not settings.default.derandomize:
        pytest.skip("this run explores")
    before = draws()
    assert before == draws()
    path = tmp_path / "constants_for_hypothesis.py"
    path.write_text(f"NUMBERS = {[10**6 + 977 * n for n in range(200)]}\n")
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, path.stem, module)
    spec.loader.exec_module(module)
    assert before == draws()


@pytest.mark.slow
def test_another_profile_draws_others(tmp_path: Path) -> None:
    """Also for a test with its own settings, which inherit the rest from the profile."""
    (tmp_path / "conftest.py").write_text(CONFTEST.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "test_profile.py").write_text(
        "from hypothesis import settings\n"
        "own = settings(max_examples=3)\n"
        "def test_profile():\n"
        "    assert not own.derandomize and settings.default.max_examples == 300\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "--import-mode=importlib"]
    environment = {**os.environ, "PYTHONPATH": str(CONFTEST.with_name("support"))}
    run = [*command, "--hypothesis-profile", "exploring", "."]
    subprocess.run(run, cwd=tmp_path, env=environment, check=True)

"""A pytest plugin: kernels run on the simulator in tests. Off until asked for, by `--nki-simulator` or in the settings.

# pytest.ini: nki_simulator = true
def test_softmax_is_right_and_fast(nki_run):
    x = np.random.default_rng(0).standard_normal((256, 512)).astype(np.float32)
    run = nki_run(softmax, x)
    np.testing.assert_allclose(run.outputs[0], reference(x), rtol=1e-4)
    assert run.memory.sbuf_bytes < 64 * 1024

def test_softmax_stays_fast(nki_run):  # a failure tells which lines take the time
    nki_run(softmax, np.ones((256, 512), np.float32), max_us=60)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .run import Run

SHOWN_LINES = 5  # of a kernel that is too slow


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option and the setting that turn the plugin on."""
    text = "make `import nki` find trninfer's simulator; the fixture nki_run runs kernels on it"
    parser.getgroup("trninfer").addoption("--nki-simulator", action="store_true", help=text)
    parser.addini("nki_simulator", text, type="bool", default=False)


def pytest_configure(config: pytest.Config) -> None:
    """Install the simulator before any test is imported."""
    if config.getoption("--nki-simulator") or config.getini("nki_simulator"):
        from . import install

        install()


@pytest.fixture
def nki_run(request: pytest.FixtureRequest) -> Callable[..., Run]:
    """`simulator.run`, whose result has outputs, latency_us and memory. Faults that the sanitizer finds fail the test;
    `sanitize=False` leaves it out. With `max_us`, a kernel that is predicted to take longer fails, and the failure has
    the resources and the lines of the kernel that take the time."""
    if not (request.config.getoption("--nki-simulator") or request.config.getini("nki_simulator")):
        pytest.fail("nki_run needs --nki-simulator, or nki_simulator = true in pytest's settings", pytrace=False)
    from .errors import NkiValidationError
    from .launch import run
    from .tracebacks import without_ours

    def checked(
        kernel: Callable[..., Any], *arrays: Any, sanitize: bool = True, max_us: float | None = None, **options: Any
    ) -> Run:
        __tracebackhide__ = True
        try:
            result = run(kernel, *arrays, sanitize=sanitize, **options)
        except NkiValidationError as error:
            raise error.with_traceback(without_ours(error)) from None
        if result.findings:
            pytest.fail("\n".join(map(str, result.findings)), pytrace=False)
        if max_us is not None and result.latency_us > max_us:
            pytest.fail(_too_slow(result, max_us), pytrace=False)
        return result

    return checked


def _too_slow(run: Run, max_us: float) -> str:
    """Where the time of a kernel goes that took longer than allowed."""
    from .by_line import told, told_critical

    head = f"{run.name} is predicted to take {run.latency_us:.2f} us on {run.target}, {max_us:g} are allowed"
    return "\n".join([head, f"critical path: {told_critical(run)}", *map(told, run.lines[:SHOWN_LINES])])

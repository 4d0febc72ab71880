"""The published suites: their contents, and that our kernels run on their cases."""

import pytest
from trninfer import simulator
from trninfer.runtime.measure import suites
from trninfer.runtime.measure.suites import SuiteCase, UnknownSuite, load_suite, predict_case, run_suite, suite_names

KINDS = {"threshold", "student", "fastest published", "AWS tutorial", "none"}


def case(name: str, suite: str) -> SuiteCase:
    return next(c for c in load_suite(suite) if c.name == name)


def test_every_suite_has_cases_that_are_complete() -> None:
    assert "cs149-part1" in suite_names()
    for name in suite_names():
        for c in load_suite(name):
            assert c.suite == name
            assert c.published_kind in KINDS
            assert (c.published_us is None) == (c.published_kind == "none")
            assert c.target in simulator.TARGETS


def test_parameters_are_read() -> None:
    found = case("vector_add direct_allocation free=1000 n=256000", "cs149-part1")
    assert found.parameters == {"n": 256000, "variant": "direct_allocation", "free": 1000, "tiles": 4}
    assert case("matmul tiled", "matmul-ladder").parameters["variant"] == "tiled"


@pytest.mark.parametrize("name", suite_names())
def test_every_case_has_a_kernel_that_takes_its_parameters(name: str) -> None:
    for c in load_suite(name):
        kernel, arguments, _ = suites._launch(c)
        assert isinstance(kernel, simulator.Kernel)
        assert all(min(spec.shape) > 0 for spec in arguments)


def test_only_a_profile_is_predicted_as_one() -> None:
    profiles = [c.name for name in suite_names() for c in load_suite(name) if c.profiled]
    assert "vector_add stream free=2000 n=256000" in profiles
    assert not case("transpose 1024", "cs149-part1").profiled
    assert not case("conv 32x16 float32 pool=1", "cs149-part2").profiled  # "benchmark p99 or profile total"


def test_an_unknown_suite_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(UnknownSuite, match=r"unknown suite 'cs150'; allowed: cs149-part1, .*matmul-ladder"):
        run_suite("cs150")
    assert issubclass(UnknownSuite, ValueError)


def test_a_suite_is_timed_case_by_case(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = [
        case("vector_add stream free=200 n=25600", "cs149-part1"),
        case("transpose 1024", "cs149-part1"),
        case("conv 32x16 float16 pool=2", "cs149-part2"),
    ]
    monkeypatch.setattr(suites, "_cases", lambda: tuple(SuiteCase(**{**vars(c), "suite": "few"}) for c in chosen))
    calls: list[tuple[int, int, str]] = []
    rows = list(run_suite("few", lambda *call: calls.append(call)))
    assert calls == [(i, 3, c.name) for i, c in enumerate(chosen)]
    for c, row in zip(chosen, rows, strict=True):
        assert (row.name, row.published_us, row.published_kind) == (c.name, c.published_us, c.published_kind)
        assert c.published_us is not None
        assert row.predicted_us > 0
        assert row.ratio == pytest.approx(row.predicted_us / c.published_us)


def test_case_without_published_time_has_no_ratio(monkeypatch: pytest.MonkeyPatch) -> None:
    unpublished = case("ffnn_predict matmul=tiled", "cs152-ffnn")
    small = {**vars(unpublished), "parameters": {"n": 64, "d": 64, "hidden": 32, "classes": 10, "matmul": "tiled"}}
    monkeypatch.setattr(suites, "_cases", lambda: (SuiteCase(**small),))
    (row,) = run_suite("cs152-ffnn")
    assert row.predicted_us > 0
    assert row.ratio is None


def test_a_larger_problem_takes_longer() -> None:
    assert predict_case(case("transpose 4096", "cs149-part1")) > predict_case(case("transpose 1024", "cs149-part1"))

"""Published kernels: the locations of their sources, and predictions from a checkout."""

import hashlib
import sys
import textwrap
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("libcst")
from trninfer.runtime.measure import published
from trninfer.runtime.measure.published import (
    PublishedKernel,
    SourceError,
    find_published,
    load_published,
    predict_published,
    published_kernels,
    set_constants,
)
from trninfer.runtime.measure.suites import THEIRS, load_suite, run_suite, suite_names
from trninfer.simulator import TensorSpec, run

# In the dialect of the courses, instructions return tiles.
SOURCE = """\
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl

ROWS = 64  # ROWS = 64


@nki.jit
def added(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.hbm)
    for i in nl.affine_range(a.shape[0] // ROWS):
        first = nl.load(a[i * ROWS : (i + 1) * ROWS])
        second = nl.load(b[i * ROWS : (i + 1) * ROWS])
        nl.store(out[i * ROWS : (i + 1) * ROWS], nisa.tensor_tensor(first, second, nl.add))
    return out
"""


@pytest.fixture
def kernel(tmp_path) -> PublishedKernel:
    """Return a kernel whose source is in a checkout below tmp_path."""
    made = replace(
        published_kernels()[0],
        repository="someone/homework",
        file="part1/kernels.py",
        sha256=hashlib.sha256(SOURCE.encode()).hexdigest()[:12],
        kernel="added",
        constants={"ROWS": 128},
        arguments=(TensorSpec((256, 8), "float32"),) * 2,
        target="trn2",
        parameters={},
        note="",
    )
    path = made.path(tmp_path)
    path.parent.mkdir(parents=True)
    path.write_text(SOURCE, encoding="utf-8")
    return made


def test_a_source_is_migrated_and_predicted_with_its_constants(kernel, tmp_path):
    few, many = predict_published(kernel, tmp_path), predict_published(replace(kernel, constants={"ROWS": 1}), tmp_path)
    assert 10 < few < many


TWO_CORES = """\
import nki
import nki.isa as nisa
import nki.language as nl
from rows_of_the_library import ROWS


@nki.jit
def added(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for i in range(nl.program_id(0), a.shape[0] // ROWS, nl.num_programs(0)):
        tile = nl.ndarray((ROWS, a.shape[1]), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=a[i * ROWS : (i + 1) * ROWS])
        nisa.dma_copy(dst=out[i * ROWS : (i + 1) * ROWS], src=tile)
    return out
"""


def test_a_kernel_of_two_cores_that_imports_a_library_of_another_checkout(kernel, tmp_path):
    library = tmp_path / "others" / "library" / "src"
    library.mkdir(parents=True)
    (library / "rows_of_the_library.py").write_text("ROWS = 32\n")
    kernel.path(tmp_path).write_text(TWO_CORES)
    digits = hashlib.sha256(TWO_CORES.encode()).hexdigest()[:12]
    one = replace(kernel, library="others/library/src", sha256=digits, constants={})
    first, second = predict_published(one, tmp_path), predict_published(replace(one, cores=2), tmp_path)
    assert 10 < second < first
    assert str(library) not in sys.path


def test_arguments_may_have_dtypes_of_their_own():
    packed = published.find_row("o40")
    assert (packed.cores, packed.library) == (2, "aws-neuron/nki-library/src/nkilib_src")
    assert [each.dtype for each in packed.arguments] == ["bfloat16"] * 3 + ["int8"] * 2 + ["float32"]
    assert packed.arguments[3].shape == (128, 17, 128, 384)


def test_a_kernel_that_cannot_be_predicted_does_not_count():
    assert [each.row for each in published_kernels() if not each.is_predicted] == ["k36", "k37"]
    assert not published.find_row("k36").is_comparable and not published.find_row("k01").is_comparable


def test_wrong_source_is_reported_in_one_line_with_a_remedy(kernel, tmp_path):
    path = kernel.path(tmp_path)
    for changed, message in (
        (
            replace(kernel, repository="someone/else"),
            "no such file; download it with `git clone https://github.com/s",
        ),
        (
            replace(kernel, sha256="0" * 12),
            "not the version that was .* checkout d1552616 -- part1/kernels.py`",
        ),
        (
            replace(kernel, file="part2/gone.py"),
            "no such file; download it with `git -C .* checkout d1552616 -- part2/gone.py`",
        ),
        (replace(kernel, kernel="subtracted"), "contains no kernel subtracted"),
        (replace(kernel, constants={"COLUMNS": 1}), "the source does not assign a number to COLUMNS"),
        (replace(kernel, constants={"ROWS": 256}), "added: NkiValidationError: .*256"),
    ):
        with pytest.raises(SourceError, match=message) as error:
            predict_published(changed, tmp_path)
        assert "\n" not in str(error.value)
    path.write_text("import neuronxcc.nki as nki\nraise ValueError('no\\nluck')\n")
    with pytest.raises(SourceError, match="ValueError: no luck"):
        load_published(
            replace(kernel, sha256=hashlib.sha256(path.read_bytes()).hexdigest()[:12], constants={}), tmp_path
        )


def test_constants_are_replaced_only_in_their_assignments():
    assert set_constants(SOURCE, {"ROWS": 2}) == SOURCE.replace("ROWS = 64 ", "ROWS = 2 ", 1)
    assert set_constants("def f():\n    é, n = 1, 2\n    N = 3; M = 4\n", {"N": 10, "M": 0}).endswith("N = 10; M = 0\n")


def test_a_kernel_is_a_block_of_a_page(kernel, tmp_path):
    other = SOURCE.replace("nl.add", "nl.multiply").replace("nki.jit", "nki.jit  # the second")
    page = "".join(
        f"Text.\n\n.. code-block:: python\n\n{textwrap.indent(source, '    ')}\n"
        for source in ("import os\n", SOURCE, other)
    )
    kernel.path(tmp_path).write_text(page, encoding="utf-8")
    digits = hashlib.sha256(page.encode()).hexdigest()[:12]
    second = replace(kernel, file=f"{kernel.file}#2", sha256=digits)
    a = np.full((128, 8), 3, np.float32)
    assert run(load_published(second, tmp_path), a, a).outputs[0][0, 0] == 9
    assert second.path(tmp_path) == kernel.path(tmp_path)
    with pytest.raises(SourceError, match="expected one code block with added, found 2"):
        load_published(replace(second, file=f"{kernel.file}#3"), tmp_path)


def test_every_published_kernel_of_a_suite_is_one_of_its_cases():
    cases = {(c.suite, c.name, c.published_us): c for name in suite_names() for c in load_suite(name)}
    named = [each for each in published_kernels() if each.suite]
    assert len(named) > 8
    for each in named:
        case = cases[each.suite, each.case, each.published_us]
        assert (case.target, case.dtype) == (each.target, each.arguments[0].dtype)
        assert case.profiled <= each.profiled or case.metric == "benchmark p99 or profile total"


def test_a_suite_predicts_published_kernels_and_counts_only_comparable_ones(kernel, tmp_path, monkeypatch):
    first, second, *_ = published_kernels()
    theirs = [
        replace(kernel, suite=p.suite, case=p.case, published_us=p.published_us, note=p.note) for p in (first, second)
    ]
    monkeypatch.setattr(published, "published_kernels", lambda: tuple(theirs))
    one, two, *others = run_suite("cs149-part1", sources=tmp_path)
    assert one.kernel == two.kernel == THEIRS and one.predicted_us == two.predicted_us
    assert one.ratio is None and one.note.startswith("not comparable") and two.ratio == two.predicted_us / 378
    assert {row.kernel for row in others} == {"trninfer's"}
    assert find_published("cs149-part1", "transpose 4096", 700.0) is None

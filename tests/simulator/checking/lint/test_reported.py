"""Rules without documentation by AWS: interleaved accumulation, accesses to half words, and names of tensors."""

import pytest
from linted_functions import HEAD, reported, scope_of, write_files
from trninfer.simulator.checking.lint.constants import number_of
from trninfer.simulator.checking.lint.reported import check_reported
from trninfer.simulator.checking.lint.source import Files

ACC = "acc = nl.ndarray((128, {}), dtype=nl.float32, buffer=nl.psum)\n"
SUMS = "for k in range(n):\n    for i in range(4):\n        nisa.nc_matmul(acc[{}], a, a, accumulate={})"


def found(body, before=""):
    return [(rule, message) for _, rule, message in reported(check_reported, body, before=before)]


@pytest.mark.parametrize(
    ("columns", "index", "accumulate", "is_found"),
    [
        ("4", ":, i : i + 1", "k > 0", True),
        ("4", ":, i", "k > 0", True),
        ("512", ":, i * 128 : i * 128 + 128", "not k", True),
        ("4 * 128", ":, nl.ds(i * 128, 128)", "k > 0", True),
        ("513", ":, nl.ds(i * 128, 128)", "k > 0", False),  # in several banks
        ("n", ":, i : i + 1", "k > 0", True),
        ("n", ":, nl.ds(i * 128, 128)", "k > 0", False),
        ("4", ":, 0:1", "k > 0", False),  # the same sum
        ("4", ":, i : i + 1", "i > 0", False),  # the inner loop iterates over the terms
        ("4", ":, i : i + 1", "n > 0", False),
        ("4, 128", ":, i, :", "k > 0", True),
        ("4, 512", ":, i, :", "k > 0", False),
    ],
)
def test_sums_that_grow_in_turn(columns, index, accumulate, is_found):
    body = ACC.format(columns) + SUMS.format(index, accumulate)
    assert [rule for rule, _ in found(body)] == ["interleaved-sums"] * is_found


def test_the_message_on_sums():
    ((_, message),) = found(ACC.format(4) + SUMS.format(":, i", "k > 0"))
    assert message == (
        "dst acc[:, i]: sums that alternate in one bank of PSUM lose terms on trn2: make the loop over k the "
        "inner loop, or give each sum its own bank"
    )


@pytest.mark.parametrize(
    "body",
    [
        "for k in range(n):\n    {acc}    for i in range(4):\n        nisa.nc_matmul(acc[:, i], a, a, accumulate=k)",
        "for i in range(4):\n    {acc}    for k in range(n):\n        nisa.nc_matmul(acc[:, i], a, a, accumulate=k)",
        "{acc}for k in range(n):\n    for i in range(4):\n        nisa.nc_matmul(acc[:, i], a, a)",
        "acc = nl.zeros((128, 4), nl.float32)\n" + SUMS.format(":, i", "k > 0"),
        "{acc}acc = a\n" + SUMS.format(":, i", "k > 0"),
    ],
    ids=["a bank a term", "a bank a sum", "no accumulate", "in SBUF", "another tensor"],
)
def test_sums_that_do_not(body):
    acc = ACC.format(4)
    assert found(body.format(acc=acc) if "{acc}" in body else body) == []


@pytest.mark.parametrize(
    ("tile", "columns", "dtype"),
    [
        ("(128, 3), nl.bfloat16, nl.psum", 3, "bfloat16"),
        ("(128, 3, 5), nl.float16, nl.psum", 15, "float16"),
        ("(128, 1), nl.bfloat16, nl.psum", 1, "bfloat16"),
    ],
)
def test_an_odd_number_of_halves_of_words(tile, columns, dtype):
    message = f"{columns} column(s) of {dtype} end within a word of PSUM: allocate {columns + 1} columns"
    assert found(f"e = nl.ndarray({tile})") == [("psum-words", message)]


def test_a_single_column():
    message = "a single float16 column fills only half of a word: allocate two columns, and use a view of one"
    assert found("e = nl.ndarray((n, 1, 1), nl.float16)") == [("one-column", message)]


@pytest.mark.parametrize(
    "tile",
    [
        "(128, 4), nl.bfloat16, nl.psum",
        "(128, 3), nl.float32, nl.psum",
        "(128, 3), nl.bfloat16",
        "(128, n), nl.bfloat16, nl.psum",
        "(128,), nl.bfloat16",
        "(128, 1), nl.bfloat16, nl.shared_hbm",
    ],
)
def test_whole_words(tile):
    assert found(f"e = nl.ndarray({tile})") == []


def test_a_single_stationary_column():
    body = "e = nl.ndarray((128, 4), dtype={})\nnisa.nc_matmul(dst=a, stationary=e[{}], moving=a)"
    for index in ("0:128, 2:3", ":, n : n + 1", ":, 3"):
        ((rule, message),) = found(body.format("nl.bfloat16", index))
        assert (
            rule == "one-column"
            and message.startswith("stationary e[")
            and message.endswith("bfloat16: use two columns")
        )
    for index in (":, 2:4", ":, n : n + 2", "..."):
        assert found(body.format("nl.bfloat16", index)) == []
    assert found(body.format("nl.float32", ":, 2:3")) == []


def test_names_of_tensors():
    made = "x = nl.ndarray((128, 8), nl.float32, name={})\n"
    e, f, empty = (made.format(repr(name)) for name in ("e", "f", ""))
    again = "the name 'e' is used {}: give each tensor of a launch its own name"
    assert found(e + e) == [("tensor-name", again.format("again"))]
    assert found(f"for i in range(n):\n    {e}") == [("tensor-name", again.format("in each iteration of the loop"))]
    for body in (
        e + f + empty + empty,
        f"for i in range(n):\n    {made.format('str(i)')}",
        f"for i in range(n):\n    def body(j):\n        {e}",
        f"for i in range(n):\n    pass\nelse:\n    {e}",
    ):
        assert found(body) == []


def test_numbers_that_are_reported(tmp_path):
    write_files(tmp_path, sizes="from other import WIDE\n", other="WIDE = 96\n")
    write_files(tmp_path, around="from around import WIDE as LOST\nfrom around import LOST as WIDE\n")
    known = {"3": 3, "N": 4, "N * 2 * W": 768, "nl.tile_size.pmax": 128, "nl.tile_size.psum_fmax": 512}
    expressions = [*known, "M", "T", "True", "LOST", "local", "a", "N + 1", "N * n", "a.shape", "unknown"]
    scope, _ = scope_of(
        f"{HEAD}from sizes import WIDE as W\nfrom around import LOST\nN = 4\nM = 5\nM = 6\nT = True\n\n"
        f"def kernel(a, n):\n    local = 1\n    return [{', '.join(expressions)}]\n"
    )
    scope.files, scope.module.path = Files(), tmp_path / "kernel.py"
    found = [number_of(scope, element) for element in scope.function.body[-1].value.elts]
    assert found == [known.get(expression) for expression in expressions]
    assert number_of(scope, None) is None


@pytest.mark.parametrize(("index", "is_found"), [(":, 1:5", True), (":, 3", True), (":, 2:5", False), (":, n:", False)])
@pytest.mark.parametrize(("dtype", "buffer"), [("bfloat16", "psum"), ("float32", "psum"), ("bfloat16", "sbuf")])
def test_a_slot_of_halves_of_words(index, is_found, dtype, buffer):
    rules = [
        rule for rule, _ in found(f"e = nl.ndarray((128, 8), nl.{dtype}, nl.{buffer})\nnisa.tensor_copy(a, e[{index}])")
    ]
    assert rules == ["psum-slot"] * (is_found and (dtype, buffer) == ("bfloat16", "psum"))


@pytest.mark.parametrize(
    ("tile", "is_found"),
    [("(1, 8), nl.float32", True), ("(1, 8), nl.float32, nl.psum", True), ("(2, 8), nl.float32", False),
     ("(n, 8), nl.float32", False), ("(1, 8), nl.float32, nl.shared_hbm", False)],
)  # fmt: skip
def test_a_reshape_of_one_partition(tile, is_found):
    assert [rule for rule, _ in found(f"e = nl.ndarray({tile})\nb = e.reshape((1, 2, 4))")] == [
        "one-partition"
    ] * is_found
    assert found(f"e = nl.ndarray({tile})\nb = e.reshape_dim(1, (2, 4))") == []


@pytest.mark.parametrize(
    ("tile", "bytes_of_row"),
    [("(8, 12), nl.bfloat16", 24), ("(8, 16), nl.bfloat16", 0), ("(8, 6), nl.float32", 24), ("(8, n), nl.bfloat16", 0)],
)
def test_rows_of_a_transpose(tile, bytes_of_row):
    messages = [message for _, message in found(f"e = nl.ndarray({tile})\nnisa.dma_transpose(e[:, 0:4], a)")]
    advice = "the back end requires multiples of 32: allocate wider rows and use a view"
    expected = f"dst has rows of {bytes_of_row} bytes; {advice}"
    assert messages == [expected] * (bytes_of_row > 0)

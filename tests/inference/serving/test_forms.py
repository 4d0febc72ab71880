"""Parsing the files of a form in memory."""

from __future__ import annotations

import tempfile
import tracemalloc
from typing import Any

import pytest

pytest.importorskip("fastapi")
from trninfer.inference.serving.forms import files_of
from trninfer.inference.serving.tensors import ProtocolError

KIND = "multipart/form-data; boundary=b"


def form(*fields: tuple[str, bytes], most: int = 3, kind: str = KIND) -> list[tuple[str, bytes]]:
    parts = [
        b"--b\r\nContent-Disposition: form-data; " + head.encode() + b"\r\n\r\n" + body + b"\r\n"
        for head, body in fields
    ]
    return files_of(b"".join(parts) + (b"--b--\r\n" if fields else b""), kind, most)


def test_the_files_of_a_form_and_a_body_that_is_one() -> None:
    one, two = ('name="a"; filename="x.png"', b"1\r\n2"), ('name="b"; filename="y.png"', b"")
    assert form(one, ('name="text"', b"not a file"), two) == [("x.png", b"1\r\n2"), ("y.png", b"")]
    assert form(one, kind="MULTIPART/form-data; boundary=b") == [("x.png", b"1\r\n2")]
    assert form(('name="a"; filename="七.png"', b"1")) == [("七.png", b"1")]
    assert files_of(b"raw", "", 1) == files_of(b"raw", "image/png", 1) == [("picture", b"raw")]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: files_of(b"", "", 1), "the body is empty; send a picture"),
        (
            lambda: form(('name="text"', b"x")),
            "the form contains no file; send one, for example with curl -F file=@7.png",
        ),
        (lambda: form(*[('name="a"; filename="x"', b"1")] * 4), "the form cannot be read: Too many files"),
        (lambda: form(*[('name="a"', b"1")] * 17), "the form cannot be read: Too many fields"),
        (lambda: form(kind="multipart/form-data"), "the form cannot be read"),
        (lambda: files_of(b"junk", KIND, 1), "the form"),
    ],
)
def test_form_without_a_file_is_refused(call: Any, message: str) -> None:
    with pytest.raises(ProtocolError) as error:
        call()
    assert error.value.status == 400 and str(error.value).startswith(message)


@pytest.mark.parametrize("charset", ["utf-7", "punycode", "idna", "unicode_escape", "utf-16", "x" * 1000, "base64"])
def test_names_in_charsets_that_are_not_read(charset: str) -> None:
    """UTF-7 decodes to lone surrogates, which JSON cannot represent; other charsets take minutes."""
    with pytest.raises(ProtocolError, match="send it as UTF-8"):
        form(('name="a"; filename="+2AA-.png"', b"1"), kind=f"{KIND}; charset={charset}")


def test_form_is_parsed_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parser examines line ends one by one, and files above 1 MB used to be spooled to disk."""

    def refuse(*arguments: Any, **more: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    content = b"\r" * (3 << 20)
    tracemalloc.start()
    try:
        assert form(('name="a"; filename="x"', content)) == [("x", content)]
        assert tracemalloc.get_traced_memory()[1] < 40 << 20
    finally:
        tracemalloc.stop()

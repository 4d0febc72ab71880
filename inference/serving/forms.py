"""Extract the files of a form from the body of a request; any other body is a single file.

Nothing is written to disk.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Coroutine
from typing import Any, TypeVar

from python_multipart.multipart import parse_options_header
from starlette.datastructures import Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from .tensors import ProtocolError

MAX_FORM_FIELDS = 16
PIECE_BYTES = 1 << 16
CHARSETS = (b"utf-8", b"us-ascii", b"iso-8859-1")  # allowed for names; other codecs are slow or decode to surrogates
Value = TypeVar("Value")


class _InMemory(MultiPartParser):
    """Keeps files in memory, since the complete body is already in memory."""

    spool_max_size = 1 << 62


def files_of(body: bytes, content_type: str, most: int) -> list[tuple[str, bytes]]:
    """Return the files in a body with their names: the files of a form, or the whole body as a single file.

    Raises ProtocolError if there are none, if there are more than `most`, or if the form is malformed.
    """
    kind, options = parse_options_header(content_type)
    if kind.lower() != b"multipart/form-data":
        if not body:
            raise ProtocolError("the body is empty; send a picture")
        return [("picture", body)]
    charset = options.get(b"charset", b"utf-8").lower()
    if charset not in CHARSETS:
        raise ProtocolError(f"the form's charset is {charset[:40].decode('latin-1')!r}; send it as UTF-8")
    try:
        return _run(_files(body, content_type, most))
    except MultiPartException as error:
        raise ProtocolError(f"the form cannot be read: {str(error.message)[:100]}") from None
    except (LookupError, ValueError) as error:
        raise error if isinstance(error, ProtocolError) else ProtocolError("the form cannot be read") from None


async def _files(body: bytes, content_type: str, most: int) -> list[tuple[str, bytes]]:
    async def whole() -> AsyncGenerator[bytes, None]:
        # parsed in pieces, since the parser collects all events of a piece in a list
        for begin in range(0, len(body), PIECE_BYTES):
            yield body[begin : begin + PIECE_BYTES]

    headers = Headers({"content-type": content_type})
    form = await _InMemory(headers, whole(), max_files=most, max_fields=MAX_FORM_FIELDS).parse()
    files = [value for _, value in form.multi_items() if isinstance(value, UploadFile)]
    if not files:
        raise ProtocolError("the form contains no file; send one, for example with curl -F file=@7.png")
    return [(file.filename or f"picture {number}", await file.read()) for number, file in enumerate(files)]


def _run(coroutine: Coroutine[Any, Any, Value]) -> Value:
    """Run a coroutine that never suspends, such as parsing in memory, and return its value."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        value: Value = end.value
        return value
    coroutine.close()
    raise RuntimeError("parsing a form in memory must not wait")

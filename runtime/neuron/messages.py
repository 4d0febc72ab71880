"""Main loop of the process that owns a NeuronCore.

It reads messages from standard input and replies to each of them (device.py).
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import traceback
from collections.abc import Callable
from typing import Any, BinaryIO

FOLDER_PREFIX = "trninfer-device-"  # prefix of the working directories of these processes


def serve(make_core: Callable[[], Any], requests: BinaryIO, answers: BinaryIO) -> None:
    """Reply to messages until the input ends.

    A method of the core handles each message; the core is created when the first message arrives. If an exception is
    raised, the reply contains its type, text and traceback.
    """
    core: Any = None
    while line := requests.readline():
        message = json.loads(line)
        operation, size = message.pop("op"), message.pop("bytes")
        if operation in ("put", "write"):
            message["data"] = requests.read(size)
        data = b""
        try:
            core = core or make_core()
            result = getattr(core, operation)(**message)
            data = result if isinstance(result, bytes) else b""
            answer = {"ok": True, **({} if isinstance(result, bytes) else result)}
        except Exception as error:  # any exception of AWS's packages is returned to the requesting process
            text = "".join(traceback.format_exception(error))
            answer = {"ok": False, "error": str(error), "type": type(error).__name__, "traceback": text}
        answers.write(json.dumps({**answer, "bytes": len(data)}).encode() + b"\n" + data)
        answers.flush()


def serve_pipe(make_core: Callable[[], Any]) -> None:
    """Serve requests from standard input. Libraries print to standard error, since the pipe is reserved for replies.

    If the working directory was created for this process, it is removed at the end, since the process that created it
    may have been killed.
    """
    folder = os.getcwd()
    try:
        with os.fdopen(os.dup(1), "wb") as pipe:
            os.dup2(2, 1)
            serve(make_core, sys.stdin.buffer, pipe)
    finally:
        if os.path.basename(folder).startswith(FOLDER_PREFIX):
            shutil.rmtree(folder, ignore_errors=True)

"""The main loop of the process that holds a NeuronCore: reads messages from standard input and answers each
(device.py)."""

from __future__ import annotations

import json
import os
import shutil
import sys
import traceback
from collections.abc import Callable
from typing import Any, BinaryIO

FOLDER_PREFIX = "trninfer-device-"  # of the working folders of such processes


def serve(make_core: Callable[[], Any], requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer messages until the input ends. Each is handled by a method of the core, which is created at the first
    message. An exception is answered with its type, text and traceback."""
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
        except Exception as error:  # any exception of AWS's packages goes to the process that asked
            told = "".join(traceback.format_exception(error))
            answer = {"ok": False, "error": str(error), "type": type(error).__name__, "traceback": told}
        answers.write(json.dumps({**answer, "bytes": len(data)}).encode() + b"\n" + data)
        answers.flush()


def serve_pipe(make_core: Callable[[], Any]) -> None:
    """Serve standard input; prints of libraries go to standard error, since the pipe is for answers.

    The working folder is removed at the end if it was made for this process: the one that made it may have been killed.
    """
    folder = os.getcwd()
    try:
        with os.fdopen(os.dup(1), "wb") as pipe:
            os.dup2(2, 1)
            serve(make_core, sys.stdin.buffer, pipe)
    finally:
        if os.path.basename(folder).startswith(FOLDER_PREFIX):
            shutil.rmtree(folder, ignore_errors=True)

"""A process that keeps tensors like the one on a NeuronCore: its messages, and injected faults."""

from __future__ import annotations

import sys

from trninfer.runtime.neuron.device import Device

# `seen` replies with the operations so far and the tensors held; `raise`, `die` and `hang` do as named.
PROGRAM = """
import json, os, sys, time
tensors, seen, count = {}, [], 0
while line := sys.stdin.buffer.readline():
    message = json.loads(line)
    data = sys.stdin.buffer.read(message["bytes"])
    op, tensor = message["op"], message.get("tensor")
    seen.append(op)
    answer, back = {"ok": True}, b""
    if op == "put":
        count += 1
        tensors[count] = data
        answer["tensor"] = count
    elif op == "write":
        tensors[tensor] = data
    elif op == "read" and tensor in tensors:
        back = tensors[tensor]
    elif op == "free":
        del tensors[tensor]
    elif op == "seen":
        answer |= {"seen": seen[:-1], "held": sorted(tensors), "environment": dict(os.environ)}
    elif op == "hang":
        time.sleep(60)
    elif op == "die":
        os._exit(message["status"])
    else:
        answer = {"ok": False, "type": message.get("type", "KeyError"), "error": message.get("error", str(tensor))}
    sys.stdout.buffer.write(json.dumps({**answer, "bytes": len(back)}).encode() + b"\\n" + back)
    sys.stdout.buffer.flush()
"""


def tensor_device(**variables: str) -> Device:
    """Return the process that keeps tensors, not yet started."""
    return Device([sys.executable, "-S", "-E", "-c", PROGRAM], "a library", variables)

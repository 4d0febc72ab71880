"""The cache of compiled kernels contains complete entries or none."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from trninfer.runtime.neuron.compile_cache import CompileCache, cache_folder, cache_size

MATERIAL = {"kernel": "transpose", "operands": [[[3, 4], "float32"]]}


@pytest.fixture
def warnings() -> list[str]:
    return []


@pytest.fixture
def cache(tmp_path: Path, warnings: list[str]) -> CompileCache:
    return CompileCache(tmp_path / "cache", warnings.append)


def write(folder: Path) -> None:
    (folder / "model.pt").write_bytes(b"compiled")
    (folder / "kernel.neff").write_bytes(b"neff")


def stored(cache: CompileCache) -> Path:
    with cache.hold(MATERIAL) as slot:
        entry = slot.store(write)
    assert entry is not None
    return entry


def found(cache: CompileCache, material=MATERIAL) -> Path | None:
    with cache.hold(material) as slot:
        return slot.find()


def test_stored_entry_is_found(cache, warnings) -> None:
    assert found(cache) is None
    entry = stored(cache)
    assert found(cache) == entry and (entry / "model.pt").read_bytes() == b"compiled"
    assert json.loads((entry / "entry.json").read_text())["material"] == MATERIAL
    assert found(cache, {**MATERIAL, "target": "trn3"}) is None
    assert warnings == []


@pytest.mark.parametrize(
    "damage",
    [
        lambda entry: (entry / "model.pt").write_bytes(b"compileX"),
        lambda entry: (entry / "model.pt").write_bytes(b"comp"),
        lambda entry: (entry / "kernel.neff").unlink(),
        lambda entry: (entry / "entry.json").unlink(),
        lambda entry: (entry / "entry.json").write_bytes(b""),
        lambda entry: (entry / "entry.json").write_bytes(b"\xff\xfe"),
        lambda entry: (entry / "entry.json").write_text("[]"),
        lambda entry: (entry / "entry.json").write_text("[" * 100_000),
        lambda entry: ((entry / "kernel.neff").unlink(), os.mkfifo(entry / "kernel.neff")),
        lambda entry: ((entry / "entry.json").unlink(), os.mkfifo(entry / "entry.json")),
        lambda entry: (entry / "entry.json").write_text('{"format": 1, "files": {}}'),
        lambda entry: (entry / "entry.json").write_text('{"format": 99, "files": {"model.pt": ""}}'),
    ],
)
def test_a_corrupt_entry_is_removed_and_can_be_stored_again(cache, warnings, damage) -> None:
    entry = stored(cache)
    damage(entry)
    assert found(cache) is None and not entry.exists()
    assert stored(cache) == entry and found(cache) == entry
    assert warnings == []


def test_a_failed_write_leaves_nothing(cache, warnings, tmp_path) -> None:
    def fill_the_disk(folder: Path) -> None:
        (folder / "model.pt").write_bytes(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with cache.hold(MATERIAL) as slot:
        assert slot.store(fill_the_disk) is None
    assert warnings == [f"compiled kernels are not cached: {tmp_path / 'cache'}: No space left on device"]
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["locks"]
    with cache.hold(MATERIAL) as slot:  # reported once, and never retried
        assert slot.find() is None and slot.store(write) is None
    assert len(warnings) == 1


def test_a_real_limit_on_what_may_be_written(tmp_path) -> None:
    program = """
import resource, signal, sys
from pathlib import Path
from trninfer.runtime.neuron.compile_cache import CompileCache
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
sys.dont_write_bytecode = True
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
warnings = []
cache = CompileCache(Path(sys.argv[1]), warnings.append)
with cache.hold({}) as slot:
    assert slot.store(lambda folder: (folder / "model.pt").write_bytes(bytes(5000))) is None
assert "File too large" in warnings[0], warnings
"""
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, timeout=300)
    assert [path.name for path in tmp_path.iterdir()] == ["locks"]


def test_a_cache_that_is_no_folder(tmp_path, warnings) -> None:
    (tmp_path / "file").write_text("")
    cache = CompileCache(tmp_path / "file" / "cache", warnings.append)
    with cache.hold(MATERIAL) as slot:
        assert slot.find() is None and slot.store(write) is None
    assert len(warnings) == 1 and "Not a directory" in warnings[0]


def test_a_read_only_cache(cache, warnings, monkeypatch, tmp_path) -> None:
    entry = stored(cache)
    real_open = os.open

    def read_only(path, flags, *rest, **options):
        if flags & os.O_CREAT and str(path).startswith(str(tmp_path)):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return real_open(path, flags, *rest, **options)

    monkeypatch.setattr(os, "open", read_only)
    with cache.hold({"another": "kernel"}) as slot:
        assert slot.store(write) is None
    assert len(warnings) == 1 and "Read-only file system" in warnings[0]
    monkeypatch.undo()
    assert found(CompileCache(tmp_path / "cache")) == entry


def test_no_folder_is_no_cache() -> None:
    cache = CompileCache(None)
    with cache.hold(MATERIAL) as slot:
        assert slot.store(write) is None and slot.find() is None
    assert cache.keep_log("text") is None


def test_an_error_while_compiling_passes_and_leaves_nothing(cache, tmp_path) -> None:
    with pytest.raises(KeyboardInterrupt), cache.hold(MATERIAL):
        raise KeyboardInterrupt
    assert found(cache) is None
    stored(cache)  # the lock is free again


def test_an_interrupted_write_leaves_nothing(cache, tmp_path) -> None:
    def interrupted(folder: Path) -> None:
        (folder / "model.pt").write_bytes(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), cache.hold(MATERIAL) as slot:
        slot.store(interrupted)
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["locks"]


KILLED_WRITER = """
import sys, time
from pathlib import Path
from trninfer.runtime.neuron.compile_cache import CompileCache
def write(folder):
    (folder / "model.pt").write_bytes(b"half")
    print("writing", flush=True)
    time.sleep(60)
with CompileCache(Path(sys.argv[1])).hold({"kernel": "transpose", "operands": [[[3, 4], "float32"]]}) as slot:
    slot.store(write)
"""


def test_a_process_that_is_killed_while_it_writes(cache, tmp_path) -> None:
    command = [sys.executable, "-c", KILLED_WRITER, str(tmp_path / "cache")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"writing\n"
        waited = []
        process.send_signal(signal.SIGKILL)
        with cache.hold(MATERIAL, lambda: waited.append(time.monotonic())) as slot:
            assert slot.find() is None
            entry = slot.store(write)
    assert entry is not None and found(cache) == entry
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == sorted([entry.name, "locks"])


def test_only_one_process_holds_a_slot(cache, tmp_path) -> None:
    program = f"""
from pathlib import Path
from trninfer.runtime.neuron.compile_cache import CompileCache
with CompileCache(Path({str(tmp_path / "cache")!r})).hold({MATERIAL!r}, lambda: print("waiting", flush=True)) as slot:
    print(slot.find() is not None, flush=True)
"""
    with cache.hold(MATERIAL) as slot:
        process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None and process.stdout.readline() == "waiting\n"
        slot.store(write)
    output, _ = process.communicate(timeout=300)
    assert output == "True\n" and process.returncode == 0


def test_the_folder_and_its_size(cache, tmp_path, monkeypatch) -> None:
    assert cache_size(tmp_path / "cache").entries == 0
    entry = stored(cache)
    (tmp_path / "cache" / "x.partial").mkdir()
    (tmp_path / "cache" / "x.partial" / "entry.json").write_text("{}")
    size = cache_size(tmp_path / "cache")
    assert size.entries == 1
    assert size.size_bytes == sum(file.stat().st_size for file in entry.iterdir()) > 12
    monkeypatch.setenv("TRNINFER_CACHE", str(tmp_path / "elsewhere"))
    assert cache_folder() == tmp_path / "elsewhere"
    monkeypatch.delenv("TRNINFER_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    if sys.platform == "linux":
        assert cache_folder() == tmp_path / "xdg" / "trninfer" / "neuron"

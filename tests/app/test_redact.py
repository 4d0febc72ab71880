"""Data sent to others contains no private folders, names or addresses, but keeps useful details."""

from __future__ import annotations

import getpass
import platform
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trninfer.app import redact
from trninfer.app.redact import Redactor

NAMES = st.text("abcdefghijklmnopqrstuvwxyz0123456789-_.", min_size=1, max_size=12).map(
    lambda name: name if name.strip(".") else f"{name}a"
)


@pytest.fixture
def redactor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Redactor:
    monkeypatch.setenv("HOME", "/home/ada lovelace")
    monkeypatch.setattr(getpass, "getuser", lambda: "lovelace")
    monkeypatch.setattr(platform, "node", lambda: "ip-10-0-0-5.ec2.internal")
    monkeypatch.chdir(tmp_path)
    return Redactor({"/mnt/secret cache": "<cache>"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no file /home/ada lovelace/networks/x.onnx here", "no file <home> here"),
        ("in /mnt/secret cache/0af/kernel.neff: corrupt", "in <cache>: corrupt"),
        ("'/data/customers/list.csv', line 3", "'<path>', line 3"),
        ("File \"/data/x.py\", line 3", 'File "<path>", line 3'),
        ("Lovelace on ip-10-0-0-5, i-0123456789abcdef0", "<user> on <machine>, <instance>"),
        ("at 10.1.2.3:6379 or 172.31.4.5", "at <address>:6379 or <address>"),
        ("ip-10-0-0-5.ec2.internal", "<machine>"),
        (f"{tempfile.gettempdir()}/trninfer-compile-x1/output.log", "<temporary>"),
        ("/opt/aws/neuron/lib/libnrt.so.2.32.0.1", "/opt/aws/neuron/lib/libnrt.so.2.32.0.1"),
        ("/dev/neuron0 of driver 2.26.10.0", "/dev/neuron0 of driver 2.26.10.0"),
        ("pip install --extra-index-url https://pip.repos.neuron.amazonaws.com/x", None),
        ("psum [1,127] 5 us/launch; lovelaces", None),
        ("neuron-runtime/nrtpy/model.rst", None),
    ],
)  # fmt: skip
def test_texts(redactor: Redactor, text: str, expected: str | None) -> None:
    assert redactor.text(text) == (text if expected is None else expected)


@given(st.lists(NAMES, min_size=1, max_size=4), st.sampled_from(["{}", "'{}'", "at {}: no", "x={},", "({})"]))
def test_no_part_of_a_path_is_left(parts: list[str], where: str) -> None:
    private = [f"private{part}" for part in parts]
    told = Redactor().text(where.format("/" + "/".join(private)))
    assert "private" not in told


def test_values_of_every_kind(redactor: Redactor) -> None:
    value = {"rows": [{"detail": "/data/x", "us": 1.5}, None, True], "names": ("lovelace",)}
    assert redactor.value(value) == {"rows": [{"detail": "<path>", "us": 1.5}, None, True], "names": ["<user>"]}


def test_a_user_without_a_name(monkeypatch) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: (_ for _ in ()).throw(OSError("no name")))
    assert redact.Redactor().text("root is a common name") == "root is a common name"


def test_without_a_home_and_in_a_removed_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def nobody(*_: object) -> None:
        raise KeyError("no such user")

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", nobody)
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert Redactor().text("a ~ stays, /data/x.csv does not") == "a ~ stays, <path> does not"

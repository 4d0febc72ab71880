"""A kernel's name, module and digest, determined by its identity."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from types import ModuleType

import pytest
from trninfer import kernels
from trninfer.runtime.neuron import kernel_source
from trninfer.runtime.neuron.kernel_source import find_source, kernels_digest

KERNELS = Path(kernels.__file__).parent


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import a user's module with a kernel that has a second name."""
    module = ModuleType("users_kernels")
    module.__file__ = str(tmp_path / "users_kernels.py")
    (tmp_path / "users_kernels.py").write_text("def mine(): ...\n")
    module.mine = lambda a: a
    monkeypatch.setitem(sys.modules, "users_kernels", module)
    return module


def test_a_bundled_kernel_keeps_its_name_in_other_modules(own: ModuleType) -> None:
    own.renamed = kernels.transpose
    source = find_source(kernels.transpose)
    assert (source.name, source.module) == ("transpose", "trninfer.kernels.transpose")
    assert source.file == str(KERNELS / "transpose.py")
    # kernels call each other, so all sources are included
    assert source.digest == kernels_digest() == find_source(kernels.argmax).digest


def test_the_digest_of_a_users_kernel_covers_its_file_and_all_of_ours(own: ModuleType) -> None:
    source = find_source(own.mine)
    assert (source.name, source.module, source.file) == ("mine", "users_kernels", own.__file__)
    expected = hashlib.sha256()
    for path in [*sorted(KERNELS.rglob("*.py")), Path(own.__file__)]:
        text = path.read_bytes()
        expected.update(f"{path.name} {len(text)}\n".encode() + text)
    assert source.digest == expected.hexdigest() != kernels_digest()


def test_the_digest_follows_the_text(own: ModuleType) -> None:
    before = find_source(own.mine).digest
    kernel_source._digest.cache_clear()
    Path(own.__file__).write_text("def mine(): ....\n")
    assert find_source(own.mine).digest != before
    kernel_source._digest.cache_clear()


def test_a_kernel_that_no_module_holds_has_no_digest() -> None:
    def local(a: object) -> object:
        return a

    source = find_source(local)
    assert (source.name, source.digest, source.module, source.file) == ("local", None, None, None)
    assert find_source(object()).name == "object"


def test_a_module_without_a_file(own: ModuleType) -> None:
    del own.__file__
    source = find_source(own.mine)
    assert (source.module, source.digest) == ("users_kernels", None)

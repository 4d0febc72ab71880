"""Undocumented rules that kernels known to run on hardware follow, or whose violation is reported to fail.

If a kernel violates such a rule, the simulator computes the result and issues a `ReportedOnChipWarning`, because the
compiler may reject the kernel or the chip may compute a different result. Sources, as of October 2026:

- Words of PSUM: public kernels for NeuronCore-v3 use float32 to transpose an odd number of 16-bit rows, because writes
  must consist of whole words. nki-library aligns the start of each transpose to a multiple of 4 bytes, but not its end
  (core/subkernels/norm_tkg_utils.py, for `nl.tile_size.psum_min_align`).
- Single columns: the same public kernels create a [P, 1] tile as a view of a wider tile, so that the tensor that the
  compiler places behind it remains aligned. This rule is the least certain, because nki-library contains 16-bit tiles
  and stationary operands with a single column (experimental/conv/depthwise_conv1d.py).
- Interleaved sums: when four sums were accumulated alternately in one bank on NeuronCore-v3, all except the one started
  last lost a term, according to a public report of October 2026. trainium_inferentia2_arch.rst describes one
  accumulation group per bank. nki-library accumulates sums alternately after setting the bank to zero, and does not
  pass `accumulate` (core/attention/attention_bwd.py).
- Copies with a bias: `nisa.activation(op=nl.copy, bias=...)` did not add the bias on trn1 with neuronx-cc 2.23
  (aws-neuron-sdk issue 1296, open since March 2026). nki-library adds biases in this way on trn2 and trn3
  (core/utils/interleave_copy.py, core/moe/moe_tkg/selective_expert_mx_impl.py). The kernels of this package do so as
  well; they cause no warning on these targets, because `trninfer doctor --selftest` compares their values on the chip.
- Indirect transposes with `oob_mode.skip`: a group in which some indices were out of bounds aborted the DMA and left
  the device unusable on trn2 and trn3 with SDK 2.32 (aws-neuron-sdk issue 1390, open since September 2026).
- Rules of the back end's verifier: in a public test of kernels for vLLM Neuron of October 2026, it rejected kernels
  that the front end had accepted. The reasons were a 16-bit slot of PSUM that does not start at a multiple of 4 bytes,
  a reshaped view of one partition, whose partition step is 0, and a DMA transpose whose output rows are not a multiple
  of 32 bytes.
- Inputs of a kernel: kernels of nki-library copy them before a collective reads them, because collectives "cannot
  read/write IO tensors" (test/integration/nkilib/experimental/collectives/test_collectives.py).
- Names: kernels of nki-library give every tensor of a launch a different name, depending on the layer and the loop
  iteration.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ..machine.chip import PSUM_BANK_BYTES, Target
from ..machine.errors import ReportedOnChipWarning
from ..machine.instruction import Access
from ..machine.memory import PSUM_ALIGNMENT, Storage

if TYPE_CHECKING:
    from ..tensors.tensor import NkiTensor

_OWN_KERNELS = Path(__file__).resolve().parents[2] / "kernels"
HALF_WORD = PSUM_ALIGNMENT // 2
TRANSPOSED_ROW_BYTES = 32  # output rows of dma_transpose must be a multiple of this size


class Core(Protocol):
    """The state of a NeuronCore that these rules read.

    `named` contains the names of the tensors of a launch; `looping` is the depth of nested device loops.
    """

    target: Target
    named: set[str]
    looping: int

    def warn(self, message: str, category: type[Warning]) -> None:
        """Issue a warning at the line of the kernel."""

    def line_of_kernel(self) -> tuple[str, int]:
        """Return the file and line of the kernel that is running."""


def check_words(core: Core, op: str, dst: NkiTensor) -> None:
    """Warn about a 16-bit destination in PSUM that does not cover whole words."""
    if dst._dtype.itemsize == HALF_WORD and not _is_in_words(dst):
        core.warn(
            f"{op}: dst {dst.label}, strides {dst.strides}, ends within a word of PSUM; write whole words of "
            f"{PSUM_ALIGNMENT} bytes, that is, an even number of columns (partial words are reported to be rejected)",
            ReportedOnChipWarning,
        )


def _is_in_words(dst: NkiTensor) -> bool:
    """Return True if the elements of a partition form runs of whole words. Alignment is checked elsewhere."""
    run = 1
    for extent, stride in zip(reversed(dst.shape[1:]), reversed(dst.strides[1:])):
        if extent == 1:
            continue
        if stride == run:
            run *= extent
        elif run * HALF_WORD % PSUM_ALIGNMENT or stride * HALF_WORD % PSUM_ALIGNMENT:
            return False
    return run * HALF_WORD % PSUM_ALIGNMENT == 0


def check_stationary(core: Core, stationary: NkiTensor, columns: int) -> None:
    """Warn about a 16-bit stationary operand with a single column."""
    if columns == 1 and stationary._dtype.itemsize == HALF_WORD:
        core.warn(
            f"nc_matmul: stationary {stationary.label} is a single column of {stationary.dtype}; two columns "
            "are reported to be safer",
            ReportedOnChipWarning,
        )


def check_width(core: Core, storage: Storage) -> None:
    """Warn about a 16-bit tile with a single column whose address is chosen by the compiler."""
    if storage.dtype.itemsize == HALF_WORD and storage.row == 1:
        core.warn(
            f"ndarray {storage.label}: a single {storage.dtype.name} column fills only half of a word, so the next "
            "tensor may start in the same word; allocating two columns and using a view of one is reported to be safer",
            ReportedOnChipWarning,
        )


def check_copy(core: Core, instruction: str, op: str, bias: object) -> None:
    """Warn about an activation that copies its input and adds a bias."""
    if op != "copy" or bias is None or (isinstance(bias, (int, float)) and bias == 0):
        return
    if core.target.generation > 2 and Path(core.line_of_kernel()[0]).is_relative_to(_OWN_KERNELS):
        return
    core.warn(
        f"{instruction}: op=nl.copy is used with a bias, which the chip is reported not to add (aws-neuron-sdk issue "
        "1296, trn1). Compare values on the chip, or use nisa.tensor_scalar(op0=nl.add, operand0=bias)",
        ReportedOnChipWarning,
    )


def check_skipped_transpose(core: Core) -> None:
    """Warn about an indirect dma_transpose that skips out-of-bounds indices."""
    core.warn(
        "dma_transpose: oob_mode.skip with a vector of indices; a mixture of valid and out-of-bounds indices is "
        "reported to abort the DMA and leave the device unusable (aws-neuron-sdk issue 1390, trn2 and trn3). Pad "
        "the indices with valid ones",
        ReportedOnChipWarning,
    )


def check_slot(core: Core, op: str, operand: str, tensor: NkiTensor) -> None:
    """Warn about a 16-bit operand in PSUM that does not start at a word boundary."""
    core.warn(
        f"{op}: {operand} {tensor.label} starts at byte {tensor.access.byte} of a partition of PSUM; 16-bit operands "
        f"must start at a multiple of {PSUM_ALIGNMENT} (the back end's verifier is reported to reject others)",
        ReportedOnChipWarning,
    )


def check_reshape(tensor: NkiTensor, shape: tuple[int, ...]) -> None:
    """Warn about a reshaped view of one partition in SBUF or PSUM."""
    tensor.storage.core.warn(
        f"reshape of {tensor.label} to {list(shape)}: if a view of a single partition is reshaped, its partition step "
        "is reported to become 0, which the back end's verifier rejects; use reshape_dim and flatten_dims, or "
        "allocate the tensor in this shape",
        ReportedOnChipWarning,
    )


def check_transposed_rows(core: Core, dst: NkiTensor) -> None:
    """Warn about a DMA transpose whose output rows are not a multiple of TRANSPOSED_ROW_BYTES."""
    row = dst.row * dst._dtype.itemsize
    if row % TRANSPOSED_ROW_BYTES:
        core.warn(
            f"dma_transpose: dst {dst.label} has rows of {row} bytes; the back end's verifier is reported to reject "
            f"rows that are not a multiple of {TRANSPOSED_ROW_BYTES} bytes; allocate wider rows and use a view",
            ReportedOnChipWarning,
        )


def check_collective_input(core: Core, op: str, src: NkiTensor) -> None:
    """Warn about a collective that reads an input of the kernel."""
    core.warn(
        f"{op}: src {src.label} is an input of the kernel, which collectives are reported to be unable to read; copy "
        "it to a tensor in nl.private_hbm first",
        ReportedOnChipWarning,
    )


def check_name(core: Core, name: str) -> None:
    """Warn if another tensor of the launch has the same name. A tensor created in a device loop counts once."""
    if name in core.named and not core.looping:
        core.warn(
            f"ndarray {name}: another tensor of this launch has the same name; make names unique, for example by layer "
            "and loop iteration (repeated names are reported to be rejected)",
            ReportedOnChipWarning,
        )
    core.named.add(name)


class SumsInBanks:
    """The sums accumulated by matmuls in the PSUM banks of one tensor, or of all tensors at explicit addresses."""

    __slots__ = ("_banks",)

    def __init__(self) -> None:
        # for each bank, the sums being accumulated, and the sums interrupted by the start of another one
        self._banks: dict[int, tuple[set[Access], set[Access]]] = {}

    def note(self, here: Access, adds: bool) -> bool:
        """Record a matmul that starts a sum or, if `adds`, adds to a sum.

        Returns:
            True if the matmul adds to a sum after another sum was started in the same bank.
        """
        growing, left = self._banks.setdefault(here.byte // PSUM_BANK_BYTES, (set(), set()))
        if adds:
            lost = [known for known in left if known.overlaps(here)]
            left.difference_update(lost)
            growing.add(here)
            return bool(lost)
        left.update([known for known in growing if known.row < here.row_end and here.row < known.row_end])
        growing.difference_update(left)
        left.difference_update([known for known in left if known.overlaps(here)])
        growing.add(here)
        return False


def check_sums(core: Core, dst: NkiTensor, adds: bool) -> None:
    """Warn if a matmul with explicit `accumulate` continues a sum after another one was started in the same bank."""
    storage = dst.storage
    holder = storage if storage.arena is None else storage.arena
    if holder.sums is None:
        holder.sums = SumsInBanks()
    if holder.sums.note(dst._access or dst.access, adds):
        core.warn(
            f"nc_matmul: dst {dst.label} continues a sum after another one was started in the same bank of PSUM; "
            "finish each sum before the next one, or use a separate bank for each (terms are reported to be "
            "lost on trn2)",
            ReportedOnChipWarning,
        )

"""Launch, control, DMA and HBM: every number about moving data, for each target."""

from __future__ import annotations

from .entry import Row, documented, everywhere, fitted, measured, only_trn1, same_on_trn3, scaled, third_party

# name: (trn1, trn2, trn3)
MOVEMENT: dict[str, Row] = {
    # Launch: from the start of the kernel as it is counted to its first trigger, and from its last write to the end.
    "launch_ns": same_on_trn3(
        fitted(14_400, "ns", "a launch as a benchmark counts it", "k16", "k17", "k18", "k19"),
        fitted(9_700, "ns", "a launch as a benchmark counts it", "k04"),
    ),
    "launch_profiled_ns": same_on_trn3(
        fitted(16_000, "ns", "a launch as a profile's total_time counts it", "k25", "k26"),
        fitted(14_700, "ns", "as above; a published profile shows 13.1 + 2.7 us", "k05", "k06", "k22", "k23", "k24"),
    ),
    # Control
    "hop_ns": same_on_trn3(
        measured(30, "ns", "semaphore from engine to engine, PG fig. 16"),
        measured(28, "ns", "semaphore from engine to engine, profiles in DO and the kernel optimization guide"),
    ),
    # DMA
    "trigger_ns": same_on_trn3(
        fitted(112, "ns", "between two triggers of prepared descriptors", "k13", "k14"),
        measured(120, "ns", "between two triggers of prepared descriptors (DGE off), a published profile"),
    ),
    "dge_ns": same_on_trn3(
        documented(0, "ns", "NeuronCore-v2 has no hardware DGE (A2)"),
        fitted(485, "ns", "descriptor generation of one DMA; documented as about 600 for a whole one (A2, DG)", "k01"),
    ),
    "dge_row_ns": same_on_trn3(
        documented(0, "ns/partition", "NeuronCore-v2 has no hardware DGE (A2)"),
        fitted(0.93, "ns/partition", "descriptor generation, for each partition", "k34"),
    ),
    "load_first_byte_ns": same_on_trn3(
        scaled(900, "ns", "trn2's static DMA; A1 gives about 1,300 with the semaphore"),
        measured(745, "ns", "generated descriptors to first byte of a load, profiles in DO; V 751"),
    ),
    "store_first_byte_ns": same_on_trn3(
        scaled(850, "ns", "trn2's static DMA"),
        measured(590, "ns", "generated descriptors to first byte of a store, profiles in DO; V 566"),
    ),
    "load_first_byte_static_ns": same_on_trn3(
        scaled(900, "ns", "trn2's; A1 gives about 1,300 with the semaphore"),
        measured(900, "ns", "trigger of prepared descriptors to first byte of a load, a published profile"),
    ),
    "store_first_byte_static_ns": same_on_trn3(
        scaled(850, "ns", "trn2's"),
        measured(850, "ns", "trigger of prepared descriptors to first byte of a store, a published profile"),
    ),
    "load_tail_ns": same_on_trn3(
        scaled(340, "ns", "trn2's"),
        measured(340, "ns", "last byte of a load to its consumer, DO and KO profiles; V 314"),
    ),
    "store_tail_ns": same_on_trn3(scaled(355, "ns", "trn2's"), third_party(355, "ns")),
    "load_landing_ns": same_on_trn3(
        scaled(450, "ns", "trn2's"),
        measured(
            450,
            "ns",
            "from the engines' last byte of a load to its landing: V 293, DO's profiles about 350, row i40 1,100",
        ),
    ),
    "store_landing_ns": same_on_trn3(
        scaled(200, "ns", "trn2's"),
        measured(200, "ns", "from the engines' last byte of a store to its landing: V 162, row i41 230"),
    ),
    "dma_peak": (
        documented(27.2, "B/ns", "of one engine, A1"),
        documented(27.2, "B/ns", "of one engine, DO; rows i34 to i37 agree"),
        documented(38.4, "B/ns", "of one engine, DO"),
    ),
    "dma_sustained": (
        documented(272, "B/ns", "of the 16 engines together, BW"),
        documented(368, "B/ns", "of the 16 engines together, BW"),
        documented(528, "B/ns", "of the 16 engines together, BW"),
    ),
    "descriptor_ns": same_on_trn3(
        scaled(8.9, "ns", "trn2's"),
        measured(
            8.9, "ns", "beside the bytes of a descriptor, rows i34 to i38 and the DMA time that the profile k24 shows"
        ),
    ),
    "descriptor_software_ns": same_on_trn3(
        scaled(32, "ns", "trn2's"), measured(32, "ns", "the same where GpSimd makes the descriptors, row i39")
    ),
    "partial_write_ns": (
        fitted(
            38,
            "ns",
            "a write narrower than 64 B that shares its 64 B of HBM with the next (a DRAM row cycle is 45)",
            "k12",
        ),
        scaled(38, "ns", "trn1's"),
        scaled(38, "ns", "trn1's"),
    ),
    "partial_write": (
        fitted(64, "B", "of HBM that narrower writes share: read, changed and written back one after the other", "k12"),
        scaled(64, "B", "trn1's"),
        scaled(64, "B", "trn1's"),
    ),
    # Two cores
    "barrier_ns": everywhere(
        scaled(
            355,
            "ns",
            "until both cores know that the other is there: nobody has published it; a DMA's tail on trn2, which also "
            "ends in a semaphore that another unit writes",
        )
    ),
    "dma_compute_passes": (
        documented(2, "passes", "reading, adding and writing take two passes before NeuronCore-v4 (A3)"),
        documented(2, "passes", "reading, adding and writing take two passes before NeuronCore-v4 (A3)"),
        documented(1, "passes", "reading, adding and writing at the full rate (A3)"),
    ),
    "dma_transpose_hbm": everywhere(documented(0.9, "of the rate", "HBM to SBUF at most, A2")),
    "dma_transpose_sbuf": everywhere(documented(0.5, "of the rate", "SBUF to SBUF at most, A2")),
    # HBM: pseudo-channels of one stack. trn1's rows of a matrix whose pitch is a multiple of 4 KiB meet in few of them.
    "hbm_channels": (
        fitted(
            16,
            "",
            "pseudo-channels of an HBM2E stack (JESD235; 16 x 25.6 = 410 GB/s, as A1 says); that they are interleaved "
            "plainly, so that rows can meet in few of them, is inferred from the rows",
            "k30",
            "k31",
            "k32",
        ),
        documented(0, "", "addresses are spread over channels (BW); rows i42 and k35 show no conflicts"),
        documented(0, "", "addresses are spread over channels (BW)"),
    ),
    "hbm_channel_rate": everywhere(documented(25.6, "B/ns", "of one pseudo-channel of HBM2E: 64 bits at 3.2 Gb/s")),
    "hbm_interleave": only_trn1(fitted(256, "B", "before the next pseudo-channel", "k30", "k31", "k32")),
    "dma_outstanding": only_trn1(
        fitted(4, "DMAs", "whose requests to HBM are under way at a time", "k30", "k31", "k32")
    ),
    "hbm_access": everywhere(documented(32, "B", "the least that a pseudo-channel moves: 64 bits x burst of 4")),
    "hbm_stack_rate": (
        documented(410, "B/ns", "of the stack that a tensor lies in: 820 GB/s over 2, A1"),
        measured(716, "B/ns", "of the stack that a tensor lies in, profiler metadata"),
        documented(1200, "B/ns", "of the stack that a tensor lies in: 4.8 TB/s over 4, A3"),
    ),
}

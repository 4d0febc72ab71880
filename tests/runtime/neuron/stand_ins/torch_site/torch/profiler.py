"""Part of the stand-in for PyTorch: `profile` with a NeuronConfig writes the NEFF and NTFF of the executed kernels
(how-to-profile-pytorch). STAND_IN_PROFILER injects a fault: "refuse" (not enough HBM), "nothing" (no files), "two" (two
NTFFs)."""

import json
import os
from enum import Enum
from pathlib import Path


class ProfilerActivity(Enum):
    CPU = 0
    PrivateUse1 = 1


class profile:  # noqa: N801 (PyTorch's name)
    running = None

    def __init__(self, *, activities, experimental_config) -> None:
        from torch_neuronx.profiling import NeuronConfig

        assert set(activities) == set(ProfilerActivity), "both are required"
        assert isinstance(experimental_config, NeuronConfig)
        self._config = experimental_config
        self.calls = 0

    def __enter__(self) -> "profile":
        if os.environ.get("STAND_IN_PROFILER") == "refuse":
            raise RuntimeError("failed to allocate 5 GB for notifications")
        profile.running = self
        return self

    def __exit__(self, *error) -> None:
        import torch

        profile.running = None
        assert not torch.neuron.queue, "the profile ends before the device does"
        fault = os.environ.get("STAND_IN_PROFILER", "")
        if self.calls and fault != "nothing":
            folder = Path(self._config.profile_output_dir, "i-0123456789_pid_1")
            folder.mkdir(parents=True)
            (folder / "neff_1.neff").write_text("NEFF")
            (folder / "neff_2.neff").write_text("NEFF of another kernel, out of the cache")
            for number in range(1, 3 if fault == "two" else 2):
                (folder / f"{number}_instid_0_vnc_0.ntff").write_text(json.dumps({"total_time": 17e-6}))

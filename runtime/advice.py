"""Advise how to make a network faster. Each item contains evidence from the schedule and the expected gain.

Changes that options can make (batch size, dtype, form, launches, cores) are run, and their gain is computed. For
changes that the user would have to make, the schedule is recomputed without the cost that the change would save, and
the gain is an estimate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..models.files import Model
from ..models.layers import Conv2d, Dense
from ..simulator import Run
from ..simulator.machine.chip import PARTITIONS, find_target
from ..simulator.timing.critical_path import RESOURCES
from .launch_options import DEFAULT_LAUNCHES, LaunchOptions
from .session import Result, Session
from .simulated import FasterBackend, SimulatedBackend, what_if
from .sweep import shared_hbm

LEAST_GAIN = 0.03  # smallest gain, as a share of the time, for an item of advice
LEAST_SHARE = 0.05  # smallest share of the time for which a layer is examined
MOST_LAYERS = 3  # number of layers that are examined
BATCHES = (2, 4, 8, 16)  # factors of the batch size to try
MOST_BATCH = 256
MOST_WORK = 4e10  # maximum number of multiply-accumulates for which a larger batch is tried
CORES = 2


@dataclass(frozen=True)
class WhatIf:
    """The effect of making a resource twice as fast: its time on the critical path, and the resulting total, in
    microseconds."""

    resource: str
    critical_us: float
    latency_us: float
    saved_us: float


@dataclass(frozen=True)
class Advice:
    """An item of advice: the evidence, an action, and the time per input before and after the action, in
    microseconds."""

    layer: str | None  # None for the whole network
    evidence: str
    action: str
    option: str | None  # the option of `bench` that makes the change
    before_us: float
    after_us: float
    kind: str  # "computed" if the program ran the change, else "estimated"

    def sentence(self) -> str:
        """Return the advice in one line."""
        where = f"{self.layer}: " if self.layer else ""
        gain = f"{self.after_us:.3g} us per input instead of {self.before_us:.3g}"
        return f"{where}{self.evidence}; with {self.action}: {gain} ({self.kind})"


@dataclass(frozen=True)
class Setting:
    """The settings with which a network runs."""

    dtype: str
    batch: int
    launches: LaunchOptions


class Adviser:
    """Times variants of a run on the simulator of a target."""

    def __init__(self, model: Model, target: str, setting: Setting) -> None:
        self._model, self._target, self._setting = model, target, setting
        self._backend = SimulatedBackend(target, keep_timelines=True)
        self._session = self._open(setting)
        self.result = self._session.time(setting.batch)

    def _open(self, setting: Setting, backend: SimulatedBackend | None = None) -> Session:
        return Session(self._model, backend or self._backend, setting.dtype, setting.batch, setting.launches)

    def _time(self, setting: Setting) -> Result:
        return self._open(setting).time(setting.batch)

    def what_ifs(self) -> list[WhatIf]:
        """Return the effect of making each resource of the critical path twice as fast, beginning with the most
        critical."""
        spent: dict[str, float] = {}
        for row in self.result.layers:
            for name, time in row.critical.items():
                spent[name] = spent.get(name, 0.0) + time
        effects = []
        for resource in (name for name in RESOURCES if spent.get(name)):
            total = self._session.time(self._setting.batch, FasterBackend(self._backend, resource)).total_us
            effects.append(WhatIf(resource, spent[resource], total, self.result.total_us - total))
        return sorted(effects, key=lambda each: -each.critical_us)

    def advice(self) -> list[Advice]:
        """Return the advice, first for the whole network and then for single layers, each sorted by decreasing gain."""
        setting, result = self._setting, self.result
        before = result.total_us / setting.batch
        items: list[Advice] = []
        larger = self._larger_batch()
        if larger is not None:
            batch, after = larger
            items.append(
                self._all(self._seen(), f"a batch of {batch}", f"--batch-size {batch}", before, after.total_us / batch)
            )
            items += self._of_layers(batch, after)
        if setting.dtype == "float32":
            after = self._time(replace(setting, dtype="bfloat16"))
            finding = "a float32 product takes four passes of the Tensor Engine and moves twice the bytes"
            items.append(self._all(finding, "bfloat16", "--dtype bfloat16", before, after.total_us / setting.batch))
        if setting.launches.per == "layer":
            after = self._time(replace(setting, launches=replace(setting.launches, per="network")))
            finding = f"the network runs as {len(result.layers)} launches, which exchange values through HBM"
            items.append(self._all(finding, "one launch", "--launches network", before, after.total_us / setting.batch))
        if setting.launches.form == "direct":
            after = self._time(replace(setting, launches=replace(setting.launches, form=DEFAULT_LAUNCHES.form)))
            finding = "3x3 filters are multiplied tap by tap"
            items.append(
                self._all(finding, "minimal filtering", "--form quickest", before, after.total_us / setting.batch)
            )
        items.append(self._on_cores(before))
        items += self._tables(before)
        worth = [a for a in items if a.before_us - a.after_us >= LEAST_GAIN * before]
        return sorted(worth, key=lambda a: (a.layer is not None, a.after_us - a.before_us))

    @staticmethod
    def _all(seen: str, action: str, option: str, before: float, after: float) -> Advice:
        return Advice(
            layer=None, evidence=seen, action=action, option=option, before_us=before, after_us=after, kind="computed"
        )

    def _larger_batch(self) -> tuple[int, Result] | None:
        """Return the larger batch with the shortest time per input, or None if none was tried."""
        best: tuple[int, Result] | None = None
        shapes = self._model.network.shapes()
        layers = self._model.network.layers
        work = sum(layer.multiply_accumulates(*[shapes[name] for name in layer.inputs]) for layer in layers)
        for times in BATCHES:
            batch = times * self._setting.batch
            if batch > MOST_BATCH or batch * work > MOST_WORK:
                break
            after = self._time(replace(self._setting, batch=batch))
            if best is None or after.total_us / batch < best[1].total_us / best[0]:
                best = batch, after
        return best

    def _seen(self) -> str:
        """Return the evidence in favour of a larger batch."""
        total = self.result.total_us
        launch = sum(row.critical.get("launch", 0.0) for row in self.result.layers)
        read = sum(row.hbm_bytes for row in self.result.layers)
        weights = self._weights()
        if launch > total / 3:
            return f"the launch takes {launch:.1f} of {total:.1f} us"
        if weights > read / 2:
            return (
                f"{read / 1e6:.3g} MB are moved for a batch of {self._setting.batch}, of which "
                f"{min(weights / read, 1):.0%} are weights"
            )
        hfu = sum((row.hfu or 0.0) * (row.active_us or 0.0) for row in self.result.layers) / total
        return f"the PE array multiplies for {hfu:.1%} of the time"

    def _weights(self) -> int:
        size = 4 if self._setting.dtype == "float32" else 2
        return size * sum(tensor.size for tensor in self._model.tensors.values())

    def _of_layers(self, batch: int, after: Result) -> Iterator[Advice]:
        """Yield advice on the gain from a larger batch for each of the slowest layers."""
        shares = {row.name: row.latency_us / batch for row in after.layers}
        layers_by_name = {layer.name: layer for layer in self._model.network.layers}
        rows = sorted(
            (row for row in self.result.layers if row.name in layers_by_name), key=lambda row: -row.latency_us
        )
        for row in rows[:MOST_LAYERS]:
            if row.latency_us < LEAST_SHARE * self.result.total_us:
                break
            layer = layers_by_name[row.name]
            slots = None
            if isinstance(layer, Conv2d):
                slots = layer.in_channels // layer.groups
            elif isinstance(layer, Dense):
                slots = layer.in_features
            if (row.bound_by or "").startswith("dma"):
                finding = f"{row.hbm_bytes / 1e6:.3g} MB are moved for this layer"
            elif slots is not None and slots < PARTITIONS:
                finding = f"{slots} of {PARTITIONS} partitions hold input channels"
            else:
                finding = f"bound by {row.bound_by}, HFU {row.hfu or 0.0:.1%}"
            before = row.latency_us / self._setting.batch
            yield Advice(
                layer=row.name,
                evidence=finding,
                action=f"a batch of {batch}",
                option=f"--batch-size {batch}",
                before_us=before,
                after_us=shares[row.name],
                kind="computed",
            )

    def _on_cores(self, before: float) -> Advice:
        """Return advice on running a batch of the same size on each of several cores that share HBM."""
        with what_if(shared_hbm(self._target, CORES), self._target):
            shared = self._open(self._setting, SimulatedBackend(self._target)).time(self._setting.batch)
        after = shared.total_us / (CORES * self._setting.batch)
        finding = f"one of {find_target(self._target).cores} cores is used"
        return self._all(finding, f"one batch on each of {CORES} cores", f"--cores {CORES}", before, after)

    def _tables(self, before: float) -> Iterator[Advice]:
        """Yield advice on the time for loading activation tables on the Scalar Engine, estimated from a schedule in
        which these loads take no time."""
        runs = [run for _, run in self.result.timelines if isinstance(run, Run)]
        steps = [step for run in runs for step in run.critical_path if step.waited == "table"]
        loads = sum(min(step.picoseconds, 1_300_000) for step in steps if step.resource == "scalar") / 1e6
        if not loads:
            return
        with what_if({"table_load_ns": 0.0}, self._target):
            free = self._open(self._setting, SimulatedBackend(self._target)).time(self._setting.batch)
        yield Advice(
            layer=None,
            evidence=f"waits {self.result.total_us - free.total_us:.3g} us for tables of the Scalar Engine",
            action="the same activation function in all layers",
            option=None,
            before_us=before,
            after_us=free.total_us / self._setting.batch,
            kind="estimated",
        )

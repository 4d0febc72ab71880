"""What a bench is of."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import UsageError
from ..options import BackendName, Format, RunOptions


@dataclass(frozen=True)
class BenchSubject:
    """What is timed: at most one of a model, a kernel and a suite; all bundled models where none is named."""

    model: str | None
    kernel: str | None
    shape: str | None  # of the kernel, as the command line has it
    suite: str | None

    def check(self, options: RunOptions, compared: bool) -> None:
        """UsageError where the options do not go with it."""
        subjects = {"--model": self.model, "--kernel": self.kernel, "--suite": self.suite}
        given = [option for option, value in subjects.items() if value is not None]
        if len(given) > 1:
            raise UsageError(f"{' and '.join(given)} exclude each other; give one of them")
        if self.shape is not None and self.kernel is None:
            raise UsageError("--shape needs --kernel")
        if self.suite is not None and (options.verify or options.trace is not None):
            raise UsageError("a suite is timed only; --verify and --trace go with --kernel or a model")
        if self.suite is not None and options.backend is BackendName.neuron:
            raise UsageError("a suite is predicted, by the simulator; leave out --backend neuron")
        told = (options.verify, options.trace, options.report_file, options.output, self.suite)
        if options.quiet and options.form is Format.table and not compared and not any(told):
            raise UsageError(
                "--quiet leaves nothing of a bench to tell; it goes with --verify, --compare or a --format"
            )

    def ignored(self, options: RunOptions) -> list[str]:
        """The options that were given and that a suite, which has its own, does not go by."""
        plain = RunOptions()
        pairs = {
            "--dtype": options.dtype != plain.dtype,
            "--batch-size": options.batch_size != plain.batch_size,
            "--target": options.target != plain.target,
        }
        return [option for option, given in pairs.items() if given and self.suite is not None]

    @property
    def sizes(self) -> dict[str, str] | None:
        """`m=128,n=64` as {"m": "128", "n": "64"}; None without a kernel. UsageError for what is no shape."""
        if self.kernel is None:
            return None
        shape: dict[str, str] = {}
        for part in filter(None, (part.strip() for part in (self.shape or "").split(","))):
            key, equals, value = (piece.strip() for piece in part.partition("="))
            if not (key and equals and value):
                raise UsageError(f"--shape: {part!r} is not of the form key=value, as in m=128,n=64")
            if key in shape:
                raise UsageError(f"--shape: {key} is given twice")
            shape[key] = value
        return shape

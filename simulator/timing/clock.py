"""The clock of the Tensor Engine: half speed until it has been busy.

Time is cut into windows. In one that follows a window in which the PE array was busier than a threshold the clock is
full, else half (a documented behaviour, SUM; period and states as seen in public profiles, row i43). Rows of the array
that an instruction leaves empty count as idle: V measures float32 matmuls of 64 rows at half speed, however long they
go on.
"""

from __future__ import annotations

ROUNDING = 1e-3  # nanoseconds that sums of intervals may be off


class PeClock:
    """`window` in nanoseconds, 0 where the clock never changes; `threshold` is the share of a window."""

    def __init__(self, window: float, threshold: float) -> None:
        self.window = window
        self.threshold = threshold
        self._index = 0
        self._busy = 0.0  # of the current window so far
        self._left = 0.0  # nanoseconds of the last instruction that fall into later windows
        self._rows = 0.0  # its share of the array
        self._warm = False

    @property
    def busy(self) -> float:
        """Nanoseconds of the current window, so far, for which the whole array was busy."""
        return self._busy

    def warm(self, time: float, index: int = -1) -> bool:
        """True if the clock is at full rate at `time`, for instruction `index`. Times must not decrease."""
        while self._index < int(time // self.window):
            self._warm = self._busy > self.threshold * self.window + ROUNDING
            self._index += 1
            inside = min(self._left, self.window)
            self._busy = inside * self._rows
            self._left -= inside
            if not self._busy and not self._warm:
                self._index = int(time // self.window)  # nothing happened in between
        return self._warm

    def work(self, start: float, interval: float, rows: float) -> None:
        """Count an instruction that begins in the current window and uses a share `rows` of the array."""
        inside = min(interval, (self._index + 1) * self.window - start)
        self._busy += inside * rows
        self._left, self._rows = interval - inside, rows

"""The clock of the Tensor Engine, which runs at half speed until the engine has been busy.

Time is divided into windows. The clock runs at the full rate in a window if the utilization of the PE array exceeded a
threshold in the previous window, and otherwise at half the rate (documented in SUM; the period and the two states were
observed in public profiles, row i43). Array rows that an instruction leaves empty count as idle: in measurements V (see
constants/), float32 matmuls of 64 rows run at half speed, no matter how long they take.
"""

from __future__ import annotations

ROUNDING = 1e-3  # rounding error of summed intervals in nanoseconds


class PeClock:
    """The Tensor Engine's clock.

    `window` is the length of a window in nanoseconds (0 if the clock never changes). `threshold` is the utilization in
    a window above which the clock runs at the full rate in the next window.
    """

    def __init__(self, window: float, threshold: float) -> None:
        self.window = window
        self.threshold = threshold
        self._index = 0
        self._busy = 0.0  # busy time in the current window so far
        self._left = 0.0  # nanoseconds by which the last instruction exceeds the current window
        self._rows = 0.0  # the fraction of the array used by the last instruction
        self._warm = False

    @property
    def busy(self) -> float:
        """Return the nanoseconds of full-array work in the current window so far."""
        return self._busy

    def warm(self, time: float, index: int = -1) -> bool:
        """Return True if the clock is at the full rate at `time`, when instruction `index` starts.

        Successive calls must not pass decreasing times.
        """
        while self._index < int(time // self.window):
            self._warm = self._busy > self.threshold * self.window + ROUNDING
            self._index += 1
            inside = min(self._left, self.window)
            self._busy = inside * self._rows
            self._left -= inside
            if not self._busy and not self._warm:
                self._index = int(time // self.window)  # skip the idle windows in between
        return self._warm

    def work(self, start: float, interval: float, rows: float) -> None:
        """Record an instruction that starts in the current window and uses a fraction `rows` of the array."""
        inside = min(interval, (self._index + 1) * self.window - start)
        self._busy += inside * rows
        self._left, self._rows = interval - inside, rows

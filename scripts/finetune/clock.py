"""The training clock: how much of the budget is spent, and the learning rate that follows from it.

Only training steps count. Loading, evaluating and saving come on top and are reported apart, so that a
schedule means the same however often a run stops to look at itself.
"""

import math
import time


class Clock:
    def __init__(self, budget_s: float, spent_s: float = 0.0, now=time.monotonic):
        self.budget_s, self.spent_s, self.now = budget_s, spent_s, now
        self.started: float | None = None
        self.begun_s = spent_s
        self.last_due: dict[str, float] = {}

    def start(self) -> None:
        self.started = self.now()

    def stop(self) -> None:
        if self.started is not None:
            self.spent_s += self.now() - self.started
            self.started = None

    def elapsed_s(self) -> float:
        running = 0.0 if self.started is None else self.now() - self.started
        return self.spent_s + running

    def due(self, what: str, every_s: float) -> bool:
        """Whether `every_s` seconds of training have passed since this was last so."""
        last = self.last_due.get(what, self.begun_s)
        if self.elapsed_s() - last < every_s:
            return False
        self.last_due[what] = self.elapsed_s()
        return True

    def progress(self) -> float:
        """From 0 to 1."""
        return min(self.elapsed_s() / self.budget_s, 1.0)


def rate(progress: float, peak: float, warmup: float, shape: str, floor: float) -> float:
    """The learning rate at a share of the budget: up over `warmup`, then down to `floor` of the peak."""
    if progress < warmup:
        # Never zero: the first step would be wasted.
        return peak * max(progress / warmup, 0.02)
    if shape == "constant":
        return peak
    rest = (progress - warmup) / max(1.0 - warmup, 1e-9)
    falling = 1.0 - rest if shape == "linear" else 0.5 * (1.0 + math.cos(math.pi * rest))
    return peak * (floor + (1.0 - floor) * falling)

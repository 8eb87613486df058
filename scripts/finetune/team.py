"""The processes that share a run, one thread each.

A step of a small model is hundreds of short operations. Threads that share every one of them wait for
each other hundreds of times, and beside other programs each wait is long; processes that share the
functions of a step wait once.
"""

from datetime import timedelta

import torch
import torch.distributed as dist


class Team:
    """Alone it is one process and nothing is sent."""

    def __init__(self, rank: int = 0, size: int = 1, meeting: str | None = None):
        self.rank, self.size = rank, size
        if size > 1:
            torch.set_num_threads(1)
            dist.init_process_group(
                "gloo",
                init_method=f"file://{meeting}",
                rank=rank,
                world_size=size,
                timeout=timedelta(minutes=10),
            )

    def sum(self, tensor: torch.Tensor) -> torch.Tensor:
        if self.size > 1:
            dist.all_reduce(tensor)
        return tensor

    def from_first(self, *values: float) -> list[float]:
        """What the first process says, for everybody."""
        tensor = torch.tensor(values, dtype=torch.float64)
        if self.size > 1:
            dist.broadcast(tensor, 0)
        return tensor.tolist()

    def share(self, rows):
        return rows[self.rank :: self.size]

    def part(self) -> None:
        if self.size > 1:
            dist.destroy_process_group()

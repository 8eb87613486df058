"""A lot: some units of one article that came in together."""

from __future__ import annotations

from datetime import date

from stockroom.amount import Amount
from stockroom.record import Record


class Lot(Record):
    """Units of one article with one cost and one best-before day."""

    def __init__(
        self, sku_code: str, on_hand: int, unit_cost: Amount, opened_on: date, best_before: date
    ) -> None:
        super().__init__(f"{sku_code}/{opened_on}", opened_on)
        self.sku_code = sku_code
        self.on_hand = on_hand
        self.unit_cost = unit_cost
        self.best_before = best_before

    def draw(self, n_units: int) -> int:
        """Take up to that many units off the shelf and return how many there were."""
        taken = min(n_units, self.on_hand)
        self.on_hand -= taken
        return taken

    def book_value(self) -> Amount:
        """Return what the units on the shelf have cost."""
        return self.unit_cost.scaled(self.on_hand)

    def is_stale(self, today: date) -> bool:
        """Tell whether the best-before day has passed."""
        return self.best_before < today

"""The part of a store that knows which lots there are."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from stockroom.amount import Amount
from stockroom.lot import Lot


class Shelving:
    """Lots by article, oldest first, and the levels at which to order again."""

    def __init__(self, site_label: str) -> None:
        self.site_label = site_label
        self._lots: dict[str, list[Lot]] = {}
        self.reorder_levels: dict[str, int] = {}
        self.supplier_codes: dict[str, str] = {}

    def receive(self, lot: Lot) -> None:
        """Put a lot on the shelves."""
        self._lots.setdefault(lot.sku_code, []).append(lot)
        self._lots[lot.sku_code].sort(key=lambda entry: entry.opened_on)

    def find_by_sku(self, sku_code: str) -> list[Lot]:
        """Return the lots of an article, oldest first."""
        return self._lots.get(sku_code, [])

    def every_lot(self) -> Iterator[Lot]:
        """Yield the lots of all articles."""
        for lots in self._lots.values():
            yield from lots

    def units_of(self, sku_code: str) -> int:
        """Return how many units of an article are on the shelves."""
        return sum(lot.on_hand for lot in self.find_by_sku(sku_code))

    def sku_codes(self) -> list[str]:
        """Return the articles that have ever been on the shelves, sorted."""
        return sorted(self._lots)

    def draw_units(self, sku_code: str, n_units: int) -> int:
        """Take units off the oldest lots first and return how many there were."""
        n_drawn = 0
        for lot in self.find_by_sku(sku_code):
            n_drawn += lot.draw(n_units - n_drawn)
        return n_drawn

    def book_total(self) -> Amount:
        """Return what everything on the shelves has cost."""
        total = Amount(0)
        for lot in self.every_lot():
            total = total.plus(lot.book_value())
        return total

    def drop_stale(self, today: date) -> list[Lot]:
        """Close the lots whose best-before day has passed and return them."""
        stale = [lot for lot in self.every_lot() if lot.is_stale(today)]
        for lot in stale:
            lot.close(today)
            self._lots[lot.sku_code].remove(lot)
        return stale

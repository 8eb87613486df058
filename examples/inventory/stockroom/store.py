"""A store: shelves, and the questions that its people ask about them."""

from __future__ import annotations

from datetime import date

from stockroom.amount import Amount
from stockroom.lot import Lot
from stockroom.shelving import Shelving


class Store(Shelving):
    """A site whose stock is looked after by hand."""

    def count_items(self, sku_code: str) -> int:
        """Return how many units of the article are in stock."""
        return self.units_of(sku_code)

    def is_running_low(self, sku_code: str) -> bool:
        """Tell whether the stock of the article is below its minimum."""
        return self.units_of(sku_code) < self.reorder_levels.get(sku_code, 0)

    def total_value(self) -> Amount:
        """Return the value of everything in the store."""
        return self.book_total()

    def remove_item(self, sku_code: str, quantity: int) -> None:
        """Remove a quantity of the article from the stock.

        Raises ValueError when there is not enough of it.
        """
        if self.units_of(sku_code) < quantity:
            raise ValueError(f"not enough of {sku_code}")
        self.draw_units(sku_code, quantity)

    def add_item(self, lot: Lot) -> None:
        """Add a delivered lot to the stock."""
        self.receive(lot)

    def expired_items(self, today: date) -> list[Lot]:
        """Return all lots that are past their best-before date."""
        return [lot for lot in self.every_lot() if lot.is_stale(today)]

    def items_to_reorder(self) -> list[str]:
        """Return the articles whose stock is below the minimum."""
        return [sku_code for sku_code in self.sku_codes() if self.is_running_low(sku_code)]

    def describe(self) -> str:
        """Return one line with the name of the store, the number of articles and the total value."""
        return (
            f"{self.site_label}: {len(self.sku_codes())} articles, {self.book_total().as_label()}"
        )

    def set_minimum(self, sku_code: str, minimum: int) -> None:
        """Set the minimum stock of the article."""
        self.reorder_levels[sku_code] = minimum

    def oldest_lot(self, sku_code: str) -> Lot | None:
        """Return the lot of the article that came in first, or None."""
        lots = self.find_by_sku(sku_code)
        return lots[0] if lots else None

"""An outlet: a store that sells to the public."""

from __future__ import annotations

from datetime import date

from stockroom.amount import Amount
from stockroom.lot import Lot
from stockroom.store import Store


class Outlet(Store):
    """A store with a till."""

    def name(self) -> str:
        """Return the name of the outlet."""
        return self.site_label

    def has_stock(self, sku_code: str) -> bool:
        """Return True if there is at least one unit of the article."""
        return self.units_of(sku_code) > 0

    def supplier(self, sku_code: str) -> str | None:
        """Return the supplier of the article."""
        return self.supplier_codes.get(sku_code)

    def articles(self) -> list[str]:
        """Return all articles of the outlet."""
        return self.sku_codes()

    def minimum(self, sku_code: str) -> int:
        """Return the minimum stock of the article."""
        return self.reorder_levels.get(sku_code, 0)

    def inventory_value(self) -> Amount:
        """Return the total value of the inventory."""
        return self.book_total()

    def sell(self, sku_code: str, quantity: int) -> int:
        """Sell a quantity of the article and return how many units were sold."""
        return self.draw_units(sku_code, quantity)

    def lots(self, sku_code: str) -> list[Lot]:
        """Return the lots of the article."""
        return self.find_by_sku(sku_code)

    def clear_expired(self, today: date) -> int:
        """Remove the expired lots and return how many there were."""
        return len(self.drop_stale(today))

    def is_empty(self) -> bool:
        """Return True if there are no units left in the outlet."""
        return all(lot.on_hand == 0 for lot in self.every_lot())

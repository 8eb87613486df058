"""Lines of text about a store, for people."""

from __future__ import annotations

from datetime import date

from stockroom.lot import Lot
from stockroom.order import Order
from stockroom.store import Store


def lot_line(lot: Lot) -> str:
    """Return the article, the number of units and the price of a lot as one line."""
    return f"{lot.sku_code}: {lot.on_hand} x {lot.unit_cost.as_label()}"


def stock_table(store: Store) -> list[str]:
    """Return one line for each article with the number of units in stock."""
    return [f"{sku_code}: {store.units_of(sku_code)}" for sku_code in store.sku_codes()]


def late_orders(orders: list[Order], today: date) -> list[str]:
    """Return the numbers of the orders that should have been delivered."""
    return [order.record_key for order in orders if order.is_late(today)]

"""Orders that go out to suppliers."""

from __future__ import annotations

from datetime import date, timedelta

from stockroom.amount import Amount
from stockroom.record import Record


class Order(Record):
    """What was ordered from one supplier on one day."""

    def __init__(self, record_key: str, opened_on: date, lead_days: int) -> None:
        super().__init__(record_key, opened_on)
        self.lead_days = lead_days
        self.wanted: dict[str, int] = {}
        self.agreed_prices: dict[str, Amount] = {}

    def due_date(self) -> date:
        """Return the day on which the delivery is expected."""
        return self.opened_on + timedelta(days=self.lead_days)

    def cancel(self, day: date, reason: str) -> None:
        """Close the order and note the reason."""
        self.add_remark(reason)
        self.close(day)

    def is_late(self, today: date) -> bool:
        """Tell whether the order is still open after its due date."""
        return self.is_open() and today > self.due_date()

    def age(self, today: date) -> int:
        """Return how many days ago the order was placed."""
        return (today - self.opened_on).days

    def summary(self) -> str:
        """Return the number of the order, its date and its notes as one line."""
        return f"{self.record_key} of {self.opened_on}: {'; '.join(self.remarks)}"

    def total_cost(self) -> Amount:
        """Return the price of all ordered units."""
        total = Amount(0)
        for sku_code, n_units in self.wanted.items():
            total = total.plus(self.agreed_prices[sku_code].scaled(n_units))
        return total

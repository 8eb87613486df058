"""What everything that is kept on file has in common."""

from __future__ import annotations

from datetime import date


class Record:
    """An entry with a key, the day it was opened, and remarks."""

    def __init__(self, record_key: str, opened_on: date) -> None:
        self.record_key = record_key
        self.opened_on = opened_on
        self.closed_on: date | None = None
        self.remarks: list[str] = []

    def add_remark(self, text: str) -> None:
        """Append a remark, without surrounding white space."""
        self.remarks.append(text.strip())

    def close(self, day: date) -> None:
        """Mark the entry as closed on that day."""
        self.closed_on = day

    def is_open(self) -> bool:
        """Tell whether the entry has not been closed."""
        return self.closed_on is None

    def days_open(self, today: date) -> int:
        """Return the days from the opening to the closing, or to today."""
        return ((self.closed_on or today) - self.opened_on).days

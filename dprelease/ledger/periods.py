"""Compute the periods of budgets that renew: each calendar period has the whole budget again.

Periods are whole months or years from a declared day on, and start at midnight UTC. The time at
which a charge is written decides its period. If the clock was set back, the latest time in the
ledger is used instead, so that no past period is charged again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Self

MONTHS_OF_PERIOD = {"month": 1, "year": 12}
LAST_DAY = 28
"""The last day of the month on which a period may start, because every month has this day."""

MOST_PERIODS = 10_000


def now() -> datetime:
    """Return the current time, to the second."""
    return datetime.now(UTC).replace(microsecond=0)


def now_text() -> str:
    """Return the current time as a text in ISO 8601, in whole seconds."""
    return now().isoformat(timespec="seconds")


def parse_utc_time(text: str) -> datetime:
    """Return the time in a text, in UTC; raise ValueError if it is invalid or has no time zone."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("a time of no zone")
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("a time before the first year, or after the last one") from None


@dataclass(frozen=True, slots=True)
class Renewal:
    """The renewal of a budget: `every` month or year from the day `begins` on, `periods` times."""

    every: str
    begins: date
    periods: int | None = None

    def __post_init__(self) -> None:
        if self.every not in MONTHS_OF_PERIOD:
            raise ValueError(f"a budget renews every {' or '.join(MONTHS_OF_PERIOD)}")
        if self.begins.day > LAST_DAY or not 1900 <= self.begins.year < 3000:
            raise ValueError(f"a period begins on one of the days 1 to {LAST_DAY} of a month")
        if self.periods is not None and not 1 <= self.periods <= MOST_PERIODS:
            raise ValueError(f"there are from 1 to {MOST_PERIODS:,} periods")

    def start(self, number: int) -> date:
        """Return the first day of a period; the first period has number 0."""
        months = (
            12 * self.begins.year + self.begins.month - 1 + number * MONTHS_OF_PERIOD[self.every]
        )
        return date(months // 12, months % 12 + 1, self.begins.day)

    def period_at(self, moment: datetime) -> int:
        """Return the number of the period that contains a time; negative before the first."""
        day = moment.astimezone(UTC).date()
        months = 12 * (day.year - self.begins.year) + day.month - self.begins.month
        return (months - (day.day < self.begins.day)) // MONTHS_OF_PERIOD[self.every]

    def problem_at(self, number: int) -> str | None:
        """Return why a period has no budget; None if it has a budget."""
        if number < 0:
            return f"its first period begins on {self.begins.isoformat()}"
        if self.periods is not None and number >= self.periods:
            return f"its last period ended before {self.start(self.periods).isoformat()}"
        return None

    def to_json(self) -> dict[str, Any]:
        """Return the renewal as JSON values."""
        return {"every": self.every, "begins": self.begins.isoformat(), "periods": self.periods}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        """Return the renewal from a record written by `to_json`; raise ValueError if invalid."""
        begins = date.fromisoformat(record["begins"])
        if begins.isoformat() != record["begins"]:
            raise ValueError("a day is written YYYY-MM-DD")
        return cls(record["every"], begins, record["periods"])

"""Counts what a simulated cluster uses, second by second."""

from __future__ import annotations

from pliant.simulation.agenda import Agenda


class Tally:
    """The CPU in use, exactly and at all times; how long pods of services waited."""

    def __init__(self, agenda: Agenda, total: int) -> None:
        self.used = 0
        self.total = total
        self.services_served = 0
        self.services_wait = 0.0
        self.longest_service_wait = 0.0
        self._agenda = agenda
        self._area = 0.0
        self._since = 0.0

    def use(self, cpu: int) -> None:
        """So much more is in use from now on, or less if it is below 0."""
        self._settle()
        self.used += cpu

    def served(self, wait: float) -> None:
        """A pod of a service runs after such a wait."""
        self.services_served += 1
        self.services_wait += wait
        self.longest_service_wait = max(self.longest_service_wait, wait)

    @property
    def area(self) -> float:
        """What was in use so far, times the seconds for which it was."""
        self._settle()
        return self._area

    def _settle(self) -> None:
        now = self._agenda.now
        self._area += self.used * (now - self._since)
        self._since = now

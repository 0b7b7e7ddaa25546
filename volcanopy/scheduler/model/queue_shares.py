"""What a policy of queues tells people of them, whoever they are: what each is due, and what it may have at most."""

from dataclasses import dataclass

from volcanopy.scheduler.model.resources import Ints


@dataclass(frozen=True, eq=False)
class QueueShares:
    """What all queues may claim, as (R, Q) amounts: of each together with the queues below it."""

    deserved: Ints
    """What each is due now."""
    limit: Ints
    """The most that each may hold now; UNLIMITED where there is no such limit."""
    reserved: Ints
    """What each keeps of its own, whether it uses it or not: its guarantee, and what it does not lend."""

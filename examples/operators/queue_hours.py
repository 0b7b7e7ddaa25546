"""Gives the queue ``batch`` more cpus at night: ``NIGHT=20-6 kopf run --all-namespaces queue_hours.py``."""

import os
import time

from volcanopy import on

QUEUE, DAY, AT_NIGHT = "batch", "8", "32"
FIRST, LAST = (int(hour) for hour in os.environ.get("NIGHT", "20-6").split("-"))


def is_night(hour):
    """Whether an hour is between FIRST and LAST, which may be of the next day."""
    return FIRST <= hour < LAST if FIRST < LAST else hour >= FIRST or hour < LAST


@on.queue_timer(interval=60)
def scale(queue, patch, **_):
    """Set the queue's capability if it is not that of this hour."""
    cpus = AT_NIGHT if is_night(time.localtime().tm_hour) else DAY
    if queue.metadata.name == QUEUE and str(queue.spec.capability.get("cpu")) != cpus:
        patch.spec["capability"] = {"cpu": cpus}

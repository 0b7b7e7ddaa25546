"""How much of what is wanted a queue may take."""

from volcanopy.scheduler.ledger.views import QueueView, TaskView
from volcanopy.scheduler.session.session import Session


def how_many(session: Session, queue: QueueView, task: TaskView, wanted: int, fitted: int) -> int:
    """How many of ``wanted`` equal tasks the queue may take; why not more is noted when it is none.

    ``fitted`` tasks of the job have found a place before.
    """
    allocatable = session.hooks.allocatable
    denial = allocatable(queue, task, wanted)
    if denial is None:
        return wanted
    least, most = 0, wanted
    while most - least > 1:
        middle = (least + most) // 2
        if allocatable(queue, task, middle) is None:
            least = middle
        else:
            most = middle
    if not least and task.job is not None:
        session.refuse(task.job, denial, fitted)
    return least

"""How a command ends that cannot do what it was asked: one sentence and an exit status."""


class Stop(Exception):
    """The sentence for the person, and the exit status for scripts: 1 for what failed, 2 for what was asked wrongly."""

    def __init__(self, sentence: str, status: int = 1) -> None:
        super().__init__(sentence)
        self.status = status

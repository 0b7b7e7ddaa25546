"""``python -m tests.local.process.isolation_table`` writes the table of docs/embedded-cluster.md: what a hostile program can do."""

from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "embedded-cluster.md"
BEGIN, END = "<!-- hostile programs: begin -->\n", "<!-- hostile programs: end -->\n"
STEPS = ("bubblewrap", "namespaces", "plain")
PLAIN = frozenset({"plain"})


@dataclass(frozen=True)
class Attempt:
    """What a hostile program tries, as a script that succeeds if it is possible, and the steps on which it is."""

    name: str
    script: str
    steps: frozenset[str] = frozenset()


ATTEMPTS = (
    Attempt("remount the root", "mount -o remount,rw / && touch /written"),
    Attempt(
        "remount the root in name spaces of its own",
        "unshare -Urm sh -c 'mount -o remount,bind,rw / && touch /written'",
    ),
    Attempt("write to the files of the system", "touch /etc/written || touch /usr/written"),
    Attempt("write to a folder of this machine that everyone can write to", "touch $OUTSIDE/written", PLAIN),
    Attempt("make a device", "mknod /tmp/device b 8 0"),
    Attempt("read `/etc/shadow`", "head -c 1 /etc/shadow"),
    Attempt("change a setting of the kernel", "echo x > /proc/sys/kernel/domainname"),
    Attempt("read the files of another pod", "cat $FILES/pods/*/volumes/secret/key", PLAIN),
    Attempt(
        "read the environment of another pod's program in `/proc`",
        "cat /proc/[0-9]*/environ | grep -aq SECRET=hidden",
        PLAIN,
    ),
    Attempt("find the programs of another pod", "pgrep -f [o]ther-pod-of-this-test", PLAIN),
    Attempt("send a signal to another pod's program", "pkill -USR1 -f [o]ther-pod-of-this-test", PLAIN),
)


def table() -> str:
    """The table, with a row for each attempt; programs of other pods are those of the same user."""
    rows = ["| a hostile program can | " + " | ".join(STEPS) + " |", "|---" * (len(STEPS) + 1) + "|"]
    for attempt in ATTEMPTS:
        cells = ("yes" if step in attempt.steps else "no" for step in STEPS)
        rows += [" | ".join((f"| {attempt.name}", *cells)) + " |"]
    return "\n".join(rows) + "\n"


def page() -> str:
    """The text of the page with the current table."""
    before, rest = PAGE.read_text("utf-8").split(BEGIN)
    return before + BEGIN + table() + END + rest.split(END)[1]


def main() -> int:
    """Write the page."""
    PAGE.write_text(page(), "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

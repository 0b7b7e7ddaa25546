"""Random worlds for property tests, in the notation, so that a failing one can be read."""

from hypothesis import strategies as st

PLUGINS = ("priority", "gang", "conformance", "overcommit", "drf", "predicates", "proportion", "nodeorder", "binpack")


@st.composite
def worlds(draw: st.DrawFn, nodes: int = 6, jobs: int = 6, tasks: int = 4) -> str:
    """A small world: some nodes, weighted queues, priorities, and jobs of which some run already."""
    lines = [f"class high value={draw(st.integers(1, 3))}"]
    names = [f"n{number}" for number in range(draw(st.integers(1, nodes)))]
    for name in names:
        room = f"cpu={draw(st.integers(1, 8))} memory={draw(st.integers(1, 16))}Gi pods={draw(st.integers(2, 20))}"
        flag = draw(st.sampled_from(["", "", "", " unschedulable", " taint=t:NoSchedule", " zone=a", " zone=b"]))
        lines.append(f"node {name} {room}{flag}")
    queues = ["default"]
    for number in range(draw(st.integers(0, 2))):
        queues.append(f"q{number}")
        limit = draw(st.sampled_from(["", "", f" capability.cpu={draw(st.integers(1, 12))}"]))
        guarantee = draw(st.sampled_from(["", "", f" guarantee.cpu={draw(st.integers(1, 3))}"]))
        closed = draw(st.sampled_from(["", "", "", " closed"]))
        lines.append(f"queue q{number} weight={draw(st.integers(1, 5))}{limit}{guarantee}{closed}")
    count = draw(st.integers(1, jobs))
    lines += [draw(_job(f"j{number}", names, queues, tasks)) for number in range(count)]
    return "\n".join(lines)


@st.composite
def _job(draw: st.DrawFn, name: str, nodes: list[str], queues: list[str], most: int) -> str:
    parts: list[str] = []
    total = 0
    for role in range(draw(st.integers(1, 2))):
        count = draw(st.integers(1, most))
        total += count
        cpu, memory = draw(st.integers(0, 4)), draw(st.integers(0, 6))
        words = [f"role=r{role}", f"cpu={cpu}"] + ([f"memory={memory}Gi"] if memory else [])
        where = draw(st.sampled_from(["", "", "on"]))
        if where:
            words.append("on=" + ",".join(draw(st.lists(st.sampled_from(nodes), min_size=1, max_size=3))))
            words += draw(st.sampled_from([[], [], ["releasing"], ["bound"]]))
        words += draw(st.sampled_from([[], [], [], ["tolerates=t"], ["port=80"], ["gated"]]))
        least = draw(st.sampled_from(["", f"min={draw(st.integers(1, count))}"]))
        parts.append(f"{count} x " + " ".join([*words, least]).strip())
    words = [f"min={draw(st.integers(1, total))}", f"queue={draw(st.sampled_from(queues))}"]
    words += draw(st.sampled_from([[], [], ["priority=high"], ["phase=Pending"], ["phase=Pending", "minres.cpu=2"]]))
    return f"job {name} {' '.join(words)}: {', '.join(parts)}"


def plugin_sets() -> st.SearchStrategy[str]:
    """Plugins in one or two tiers; predicates and gang always among them."""
    some = st.lists(st.sampled_from(PLUGINS), unique=True, max_size=len(PLUGINS))
    return st.tuples(some, some).map(
        lambda tiers: " | ".join(
            ", ".join(sorted(set(tier) | extra, key=lambda name: (name not in tier, name)))
            for tier, extra in (
                (tiers[0], {"gang", "predicates"} - set(tiers[1])),
                ([name for name in tiers[1] if name not in tiers[0]], set()),
            )
        )
    )

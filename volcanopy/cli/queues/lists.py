"""``volcanopy queue list`` and ``tree``: many queues at once."""

from volcanopy.cli.explaining.printing import show
from volcanopy.cli.explaining.reading import all_below
from volcanopy.cli.framework.kinds import QUEUES, key_of
from volcanopy.cli.framework.lists import Wanted, show_list
from volcanopy.cli.framework.objects import find_object
from volcanopy.cli.framework.options import Cluster, Show
from volcanopy.cli.queues import tree
from volcanopy.cli.queues.columns import VIEW
from volcanopy.kube.client.kinds import Json


async def list_queues(cluster: Cluster, show_as: Show, selector: str, below: str) -> None:
    """Print the queues that are meant."""
    async with cluster.client() as client:
        names: set[str] | None = None
        if below:
            top = await find_object(client, QUEUES, None, below)
            names = {key_of(each).name for each in all_below(top, (await client.list(QUEUES)).items)}

        def keep(queue: Json) -> bool:
            return names is None or key_of(queue).name in names

        what = f"queues below {below}" if below else ""
        await show_list(client, VIEW, Wanted(None, selector, keep=keep, what=what), show_as)


async def draw(cluster: Cluster, top: str, resource: str, output: str) -> None:
    """Draw the tree, or print it as a document."""
    async with cluster.client() as client:
        queues = (await client.list(QUEUES)).items
        if top:
            top = key_of(await find_object(client, QUEUES, None, top)).name
    if output == "name":
        for twig in tree.twigs(queues, top):
            print(key_of(twig.queue).name)
        return
    drawn = tree.twigs(queues, top)
    chosen = tree.chosen_resource([twig.queue for twig in drawn], resource)
    show(tree.document(queues, top), tree.lines(drawn, chosen), output)

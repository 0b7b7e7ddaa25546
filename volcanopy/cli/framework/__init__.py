"""What all commands that speak to a cluster share: their options, the connection, errors, tables, watching.

How to add a group of commands, ``volcanopy queue``:

1. Write ``volcanopy/cli/commands/queue.py`` with ``app = typer.Typer()`` in it, importing at its head only
   :mod:`~volcanopy.cli.framework.command` and :mod:`~volcanopy.cli.framework.options` (cheap); whatever brings in aiohttp,
   pydantic or rich is imported in the function that needs it.
2. Write each command as a function, plain or ``async``, under ``@command(app, "list", examples=[...])``. Its first
   sentence is its help. Options that many commands have come as *bundles*: a parameter annotated with one of the
   classes of ``options`` becomes all options of that class, and the function gets them as one value::

       @command(app, "list", examples=["volcanopy queue list -o wide"])
       async def list_queues(cluster: Cluster, show: Show) -> None:
           \"\"\"List the queues.\"\"\"
           from volcanopy.cli.framework.lists import Wanted, show_list

           async with cluster.client() as client:
               await show_list(client, VIEW, Wanted(), show)

   ``Cluster`` (--kubeconfig, --context), ``Place`` (-n), ``Scope`` (-n, -A, -l), ``Chosen`` (NAME..., -l, --all),
   ``Show`` (-o, --watch, --no-headers), ``Written`` (--dry-run, -o) and ``Deletion`` (-f, --cascade, --wait, ...) are
   there; other parameters are declared as Typer wants them. Names are completed in shells by ``completing``.
3. Name the module in ``GROUPS`` of ``volcanopy/cli/main.py``: it is imported when one of its commands is called.

What goes wrong is raised: ``CommandError(sentence, status)``, or any ``KubeError``, of which ``command`` makes a sentence.
Status 1 is the cluster's no (not found, forbidden, a condition not reached), 2 is wrong usage.

A kind of object is shown by a :class:`~volcanopy.cli.framework.tables.View`: its columns, each a function of the object and
the moment. :mod:`~volcanopy.cli.framework.lists` lists, watches and gets by a view, :mod:`~volcanopy.cli.framework.objects`
reads single objects and says what is like a name that is not there, :mod:`~volcanopy.cli.framework.watch` follows them,
:mod:`~volcanopy.cli.framework.description` describes them. :mod:`~volcanopy.cli.framework.changes` creates, patches and deletes
with ``--dry-run``; :mod:`~volcanopy.cli.framework.apply` does so for files, :mod:`~volcanopy.cli.framework.delete` for
whatever ``Chosen`` and ``Deletion`` mean.
"""

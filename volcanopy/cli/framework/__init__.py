"""Framework of the commands that connect to a cluster: options, connection, errors, tables, watches.

To add a group of commands, ``volcanopy widget``:

1. Write ``volcanopy/cli/widgets.py`` with ``VIEW`` (the columns: functions of the read model and the time) and
   ``describe(client, widget)``.
2. Declare a :class:`~volcanopy.cli.framework.resource.Resource` in ``volcanopy/cli/commands/`` and add the commands that
   every kind has with :func:`~volcanopy.cli.framework.resource.add_commands`.
3. Write other commands as functions, plain or ``async``, under ``@command(app, "polish", examples=[...])``. The first
   sentence of the docstring is the help. A parameter annotated with a *bundle* of ``options`` (``Cluster``, ``Place``,
   ``Scope``, ``Selection``, ``ShowOptions``, ``WriteOptions``, ``DeleteOptions``) becomes all options of the bundle.
4. Name the module in ``GROUPS`` of ``volcanopy/cli/main.py``; it is imported when one of its commands is called. It
   imports only ``command``, ``options`` and ``resource``; functions import what needs aiohttp, pydantic or rich.

Errors are raised: ``CommandError(message, status)``, or any ``KubeError``, which ``command`` turns into a message. Status
1 is a failure (missing, forbidden, timed out), 2 wrong usage.
"""

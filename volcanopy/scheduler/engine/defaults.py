"""The constants that tune what the scheduler decides, and how much it searches and names: each with its unit and reason.

What a user may set is an argument of a plugin or action.
"""

# Run times and waits

ASSUMED_RUN_TIME = "1h"
"""The run time of jobs and pods without a limit or an estimate, wherever one is needed."""
RESERVATION_DELAY = 600.0
"""Seconds after which a job as large as the cluster gets a reservation by default; others in proportion."""
HALF_LIFE = 86_400.0
"""Seconds after which half of a usage or credit is left."""
QUEUE_PAYBACK = 900.0
"""Seconds over which a queue with credit is paid back, as far as the order of queues can."""
USER_PAYBACK = 600.0
"""Seconds: a user who lacked (or used) a part of the cluster for so long comes first (last) until others have that part more."""
LEAST_RUN_TIME = 10.0
"""Seconds: run times are at least counted as so long, as usual for a bounded slowdown."""
WAIT_OF_RUN_TIMES = 8.0
"""How many times its run time a job waits until it is due."""
WAIT_OF_BACKLOGS = 1.5
"""How many times the backlog a job waits at most until it is due, by default."""
PRECEDING_PART = 0.001
"""The part of that which a job takes that precedes all others: it hardly delays them."""
DECLARED_EXCESS = 3.0
"""How many times the run time users are taken to declare before the earlier runs of their jobs show it."""
PRIOR_JOBS = 10
"""The number of jobs with earlier runs that count as much as that."""

# Reservations and admission

SKIPPED_JOBS = 8
"""The most jobs without a possible reservation that are skipped."""
STARTING_JOBS = 32
"""The most jobs of a queue that start now and precede one that has to wait for nodes."""
RESERVING_QUEUES = 32
"""The most queues with reservations at a time, the first in their order."""
PLANNED_KINDS = 64
"""The most kinds of pods whose start on nodes is computed in a session; beyond, only the work before it counts."""

TRIED_MULTIPLE = 2
"""A job that could run is admitted while the minima of admitted jobs that could, too, are below this multiple of what is idle."""

# Shares

EQUAL_DOMINANT_SHARES = 1e-6
"""Shares that differ by less are equal in the choice of victims (Volcano's value)."""
EQUAL_FRACTIONS = 1e-9
"""Fractions of the cluster that differ by less are equal."""
EQUAL_DIGITS = 9
"""Shares of hierarchical DRF that are equal to so many digits are equal."""
COMPARED_SHAPES = 32
"""For so many different pods the usable nodes are computed; the others count as if they fitted."""

# Searches

REPACKED_TASKS = 256
"""Larger gangs are not repacked: with many tasks the order matters little."""
REPACK_BACKTRACKS = 64
"""How often one search may take a placed task off its node."""
REPACK_ORDERS = 24
"""How many orders of groups with device claims are tried."""
PACKING_STEPS = 6
"""The most steps of packing a gang, as a multiple of its tasks."""
PACKING_EVENNESS = 0.3
"""The weight of what is left, beside how uneven it is."""
COMPARED_SETS = 4096
"""The most sets that are compared; of more only the cheapest are followed."""
RETURNED_SETS = 8
"""The most sets that are returned."""
CANDIDATE_LISTS = 8
"""The most lists of candidates that an action keeps: each has columns of all tasks."""
COMPARED_CANDIDATES = 64
"""The most candidates and nodes of which all sets of victims for a gang are compared."""
CONSOLIDATED_SHAPES = 4
"""The number of shapes of a gang, the largest ones, for whose pods nodes are ranked."""
CONSOLIDATED_GANGS = 16
"""The most gangs for which moves are searched in a session."""

REPACK_TRIALS = 2_000
"""How many placements all repacking of a session may try."""
REPACK_STEPS = 6_000
"""How many steps of vector packing all repacking of a session may take."""
SIZE_UNIT = 1e-8
"""The unit of the sizes of pods, as a fraction of the cluster: sums of sizes and of lost work are exact, also as floats."""

MIXED_PODS = 1_000
"""So many pods with GPUs, those that were created last, stand for the pods that will come."""

# Caches of scores: they change the time of a cycle, not its plan

SCORED_PLACES = 1 << 14
"""The number of rows of the first table of scores for a run of equal tasks; more are computed when the run needs them."""
TABLE_LEAST, TABLE_MOST = 4, 256
"""The smallest and the largest number of shapes in a table."""
TABLE_REPEATS = 4
"""Each further use of a shape outside is worth the work of building a table of so many shapes."""
TABLE_NODES = 4
"""If more nodes than this changed since the last use, the table is dropped."""
TABLE_STATES = 8192
"""The number of states of nodes whose scores are kept."""

# Messages

NAMED_BLOCKERS = 3
"""The most blocking jobs that are named."""
NAMED_JOBS = 3
"""The number of jobs with reservations that are named."""
NAMED_NODES = 5
"""The most nodes that are named."""
NAMED_PODS = 3
"""The number of pods or nodes that a message names one by one."""
USERS_OF_STATUS = 256
"""The most users in the status of a queue, those with the largest usage."""

"""How well the scheduler decides, and how fast the simulator shows it: tables of workloads that follow from a seed."""

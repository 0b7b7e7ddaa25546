"""The Helm chart: what it renders to, and what runs of it."""

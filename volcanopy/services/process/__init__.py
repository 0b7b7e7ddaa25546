"""What every service process has: leader election, health endpoints, settings, configuration files."""

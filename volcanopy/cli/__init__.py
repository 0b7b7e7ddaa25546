"""The commands: the only floor that prints."""

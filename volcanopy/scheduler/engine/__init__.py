"""The session, and the policies that every configuration enforces."""

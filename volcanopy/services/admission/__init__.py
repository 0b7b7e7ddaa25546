"""The admission webhook process."""

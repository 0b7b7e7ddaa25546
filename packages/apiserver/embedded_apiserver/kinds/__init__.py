"""The served kinds and the rules of each."""

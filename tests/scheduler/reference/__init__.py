"""Reference implementations of optimised scheduler code, slow and simple; tests compare the two."""

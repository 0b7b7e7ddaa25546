"""The recorded plans of many random worlds, compared after a change that must not change them."""

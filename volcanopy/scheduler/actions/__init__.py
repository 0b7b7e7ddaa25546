"""The steps of a scheduling cycle, in the order that the configuration names them."""

"""Objects that clients of Volcano create, as their sources write them."""

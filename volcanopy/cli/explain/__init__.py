"""``volcanopy explain`` as text."""

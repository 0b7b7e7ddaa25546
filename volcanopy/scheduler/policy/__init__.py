"""How plugins are declared, configured, combined and called."""

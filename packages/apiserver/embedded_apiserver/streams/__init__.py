"""Protocols beside HTTP that carry several streams on one connection: WebSocket channels and SPDY/3.1."""

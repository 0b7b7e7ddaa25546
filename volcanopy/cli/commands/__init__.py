"""Groups of commands: each module declares options and imports what the commands need when they are called."""

"""What installed packages add: plugins and actions of the scheduler, plugins of the job controller."""

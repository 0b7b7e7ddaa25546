"""What the commands of ``volcanopy queue`` do: show queues, draw their tree, change them, leave wishes for the controller."""

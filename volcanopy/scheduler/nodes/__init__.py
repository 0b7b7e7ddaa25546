"""What nodes offer and pods need, as columns over the nodes; shared by the plugins that filter and score."""

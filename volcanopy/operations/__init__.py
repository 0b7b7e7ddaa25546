"""What the command line, the embedded cluster and the SDK share: functions of a cluster, apart from their options."""

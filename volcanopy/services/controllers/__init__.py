"""The controller process: jobs, flows, cron jobs, queues, pod groups."""

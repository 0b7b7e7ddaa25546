"""What command line, web page and programs of users share: jobs, explanations and objects of a cluster; no options, no output."""

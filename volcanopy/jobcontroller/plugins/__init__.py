"""What a job plugin does to the pods of a job, one plugin a file."""

"""What-if questions: a cluster and manifests in, the start of each job and confirmed remedies out."""

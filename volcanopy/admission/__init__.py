"""An admission review in, a verdict and a patch out."""

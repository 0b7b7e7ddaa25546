"""Apache Spark as a client: its published jars, with the feature step for Volcano from its source."""

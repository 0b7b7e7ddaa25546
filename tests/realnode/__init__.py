"""What the product does on real kubelets: `make realnode` starts the cluster, installs the chart and runs these tests."""

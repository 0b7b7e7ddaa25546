"""Volcano's own end-to-end suites, built unchanged, against volcanopy on a real kube-apiserver (see ``__main__``)."""

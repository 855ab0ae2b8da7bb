"""The Store over HTTP: our own API server and a real kube-apiserver alike."""

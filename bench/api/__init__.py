"""The API server against kube-apiserver with etcd: CPU an operation, latency, memory, start."""

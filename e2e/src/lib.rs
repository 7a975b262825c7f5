//! A real control plane, and the tests, demo and benchmarks that run on it.

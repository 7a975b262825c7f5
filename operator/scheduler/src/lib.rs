//! Gangs in, placements out: no I/O, no Kubernetes types, no clock.

//! The Trellis operator and command line.

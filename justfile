# Shortcuts for the commands of CONTRIBUTING.md. `just` lists them.

_default:
    @just --list --unsorted

# Unit and golden tests of all crates; needs no control plane
test *arguments:
    cargo test {{ arguments }}

# All tests, also those on a real control plane
test-all *arguments:
    cargo test --workspace {{ arguments }}

# Format, lints and generated files
check:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets --locked -- -D warnings
    .ci/generated check

# Generated files: CRDs, roles, reference pages
generate:
    .ci/generated write

# A control plane with simulated nodes, Trellis and a few jobs
demo *arguments:
    cargo demo {{ arguments }}

# All that must pass before a change goes in
ci:
    .ci/run

# The same with the image, Argo CD and cert-manager
ci-all:
    .ci/run --all

//! Tests of compiled jobs through the public interface.

#[cfg(test)]
mod demands;
#[cfg(test)]
mod document;
#[cfg(test)]
mod environment;
#[cfg(test)]
mod frameworks;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod hash;
#[cfg(test)]
mod mpi;
#[cfg(test)]
mod network;
#[cfg(test)]
mod per_gpu;
#[cfg(test)]
mod placement;
#[cfg(test)]
mod pods;
#[cfg(test)]
mod ranks;
#[cfg(test)]
mod ray;
#[cfg(test)]
mod scripts;
#[cfg(test)]
mod secrets;
#[cfg(test)]
mod service;
#[cfg(test)]
mod support;
#[cfg(test)]
mod template_resources;
#[cfg(test)]
mod templates;

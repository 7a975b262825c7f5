//! What is allowed and what is denied, seen from outside.

#[cfg(test)]
mod authorize;
#[cfg(test)]
mod cedar;
#[cfg(test)]
mod document;
#[cfg(test)]
mod pod_security;
#[cfg(test)]
mod selector;

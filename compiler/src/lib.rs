//! A validated TrainingJob in; the Kubernetes objects and what they demand out.
